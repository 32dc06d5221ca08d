package lifecycle

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/health"
	"github.com/sealift/sealift/kube/render"
	"github.com/sealift/sealift/operator/queue"
)

// definitionTime is how long new kinds may take until the cluster serves them.
const definitionTime = time.Minute

// servedPoll is the pause between two checks for a kind.
const servedPoll = 100 * time.Millisecond

// defineTask applies the CustomResourceDefinitions of a module. Those of all modules are applied before the first module runs,
// so that a module may use the kinds of a later one.
func (o *Operator) defineTask(u *unit) *queue.Task {
	return &queue.Task{Name: "define kinds of module " + u.Name, Do: func(ctx context.Context, _ *queue.Queue, _ *queue.Task) error {
		if err := o.define(ctx, u); err != nil {
			return fmt.Errorf("definitions of module %s: %w", u.Name, err)
		}
		u.defined = true
		return nil
	}}
}

func (o *Operator) define(ctx context.Context, u *unit) error {
	files, err := helm.DefinitionFiles(u.Path, o.options.DefinitionPrefixes)
	if err != nil {
		return err
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		objects, err := render.Decode(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, obj := range objects {
			if obj.GetKind() != "CustomResourceDefinition" {
				return fmt.Errorf("%s: a %s is not a CustomResourceDefinition; put it into templates/", file, obj.GetKind())
			}
			all = append(all, obj)
		}
	}
	ready := true
	for _, obj := range all {
		one, err := o.putDefinition(ctx, obj)
		if err != nil {
			return err
		}
		ready = ready && one
	}
	if !ready {
		if o.options.Releases != nil {
			o.options.Releases.Refresh()
		}
		if err := kube.New(o.cluster(), kube.Options{}).Wait(ctx, all, kube.WaitOptions{Timeout: definitionTime}); err != nil {
			return err
		}
	}
	return o.served(ctx, all)
}

// served waits until the cluster lists the kinds of definitions, which may be later than the condition Established. Hooks that
// watch them would else run as if there were none.
func (o *Operator) served(ctx context.Context, definitions []*unstructured.Unstructured) error {
	bounded, cancel := context.WithTimeout(ctx, definitionTime)
	defer cancel()
	for _, obj := range definitions {
		group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(obj.Object, "spec", "versions")
		for _, one := range versions {
			version, _ := one.(map[string]any)
			name, _ := version["name"].(string)
			if version["served"] != true {
				continue
			}
			err := poll.Until(bounded, servedPoll, nil, poll.Success(func(ctx context.Context) error {
				_, err := o.cluster().Resource(ctx, kube.Ref{Group: group, Version: name, Kind: kind})
				return err
			}))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// putDefinition creates or updates one definition, and reports whether it was there and ready: an earlier try may have written it, and
// not waited to the end. The conversion that a live one has is kept: hooks may have set it.
func (o *Operator) putDefinition(ctx context.Context, obj *unstructured.Unstructured) (ready bool, err error) {
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, o.options.DefinitionLabels)
	obj.SetLabels(labels)
	ref := kube.RefOf(obj)
	err = o.cluster().Retry(ctx, ref, func(ctx context.Context) error {
		objects, err := o.cluster().Objects(ctx, ref)
		if err != nil {
			return err
		}
		live, err := objects.Get(ctx, ref.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = objects.Create(ctx, obj, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		wanted := adapted(live, obj)
		if reflect.DeepEqual(wanted.Object, live.Object) {
			state, _ := health.Of(live)
			ready = state == health.Ready
			return nil
		}
		_, err = objects.Update(ctx, wanted, metav1.UpdateOptions{})
		return err
	})
	return ready, err
}

// adapted is a live definition updated from a module's. Fields that the module does not mention stay, except below the
// versions.
func adapted(live, obj *unstructured.Unstructured) *unstructured.Unstructured {
	wanted := live.DeepCopy()
	wanted.SetLabels(over(live.GetLabels(), obj.GetLabels()))
	wanted.SetAnnotations(over(live.GetAnnotations(), obj.GetAnnotations()))
	spec, _, _ := unstructured.NestedMap(obj.Object, "spec")
	into, _ := wanted.Object["spec"].(map[string]any)
	for key, value := range spec {
		switch key {
		case "conversion":
		case "names":
			names, _ := into[key].(map[string]any)
			given, _ := value.(map[string]any)
			maps.Copy(names, given)
		default:
			into[key] = value
		}
	}
	return wanted
}

func over(below, above map[string]string) map[string]string {
	if below == nil && len(above) > 0 {
		below = map[string]string{}
	}
	maps.Copy(below, above)
	return below
}
