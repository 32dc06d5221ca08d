package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/kube"
)

// modulesAnnotation marks a Deployment as an operator of modules. It has Modules as JSON, so an operator that is rolled back gets the
// options of that version.
const modulesAnnotation = "sealift.dev/module-options"

// How long the Pods of an operator may take to end, and how often they are listed.
const (
	stopTime  = 3 * time.Minute
	stopPause = 500 * time.Millisecond
)

// Modules are the Installer's settings of modules.
type Modules struct {
	ConfigMap string         `json:"configMap"` // its name; it is in the namespace of the operator
	Sections  map[string]any `json:"sections"`  // values by key of the ConfigMap
}

// Annotations are those that the Deployment of the operator needs.
func (m Modules) Annotations() (map[string]string, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("options of modules: %w", err)
	}
	return map[string]string{modulesAnnotation: string(text)}, nil
}

// configureOperators writes the options of modules before their operators are applied. An operator that gets other modules is stopped
// first: it would treat the options as its own modules'.
func (m *applier) configureOperators(ctx context.Context, set kube.Set, objects []*unstructured.Unstructured, output io.Writer) error {
	for _, o := range objects {
		text := o.GetAnnotations()[modulesAnnotation]
		if o.GetKind() != "Deployment" || text == "" {
			continue
		}
		var modules Modules
		if err := json.Unmarshal([]byte(text), &modules); err != nil {
			return fmt.Errorf("annotation %s of Deployment %s: %w", modulesAnnotation, o.GetName(), err)
		}
		if err := refuseStrangers(ctx, m.client, o.GetNamespace(), modules); err != nil {
			return err
		}
		if err := m.stopOperator(ctx, set, objects, o, output); err != nil {
			return err
		}
		if err := configureModules(ctx, m.client, o.GetNamespace(), modules, output); err != nil {
			return err
		}
	}
	return nil
}

// stopOperator ends the Pods of an operator if wanted, one of the objects, has other Pods. The other objects are applied before that: a
// webhook of a module may judge them.
func (m *applier) stopOperator(ctx context.Context, set kube.Set, objects []*unstructured.Unstructured, wanted *unstructured.Unstructured, output io.Writer) error {
	name, namespace := wanted.GetName(), wanted.GetNamespace()
	live, err := m.client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read Deployment %s/%s: %w", namespace, name, err)
	}
	was, stops := metav1.FormatLabelSelector(live.Spec.Selector), live.Spec.Replicas != nil && *live.Spec.Replicas == 0
	if samePods(live.Spec.Template, wanted) {
		if stops { // a killed run has asked it to end
			return m.waitStopped(ctx, namespace, was)
		}
		return nil
	}
	stopped := wanted.DeepCopy()
	if err := unstructured.SetNestedField(stopped.Object, int64(0), "spec", "replicas"); err != nil {
		return err
	}
	fmt.Fprintf(output, "stopping Deployment %s/%s, which gets other modules\n", namespace, name)
	all := slices.Clone(objects)
	all[slices.Index(all, wanted)] = stopped
	if _, err := m.engine.Apply(ctx, set, all, kube.ApplyOptions{NoPrune: true}); err != nil {
		return err
	}
	return m.waitStopped(ctx, namespace, was)
}

// samePods reports whether the Pods of a Deployment have the images and the annotations of wanted. The annotations change with the modules.
func samePods(live corev1.PodTemplateSpec, wanted *unstructured.Unstructured) bool {
	var images []string
	for _, c := range live.Spec.Containers {
		images = append(images, c.Image)
	}
	var wantedImages []string
	containers, _, _ := unstructured.NestedSlice(wanted.Object, "spec", "template", "spec", "containers")
	for _, one := range containers {
		c, _ := one.(map[string]any)
		image, _, _ := unstructured.NestedString(c, "image")
		wantedImages = append(wantedImages, image)
	}
	annotations, _, _ := unstructured.NestedStringMap(wanted.Object, "spec", "template", "metadata", "annotations")
	for key, value := range annotations {
		if live.Annotations[key] != value {
			return false
		}
	}
	return reflect.DeepEqual(images, wantedImages)
}

func (m *applier) waitStopped(ctx context.Context, namespace, selector string) error {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(stopTime))
	defer cancel()
	err := kube.Poll(ctx, stopPause, func(ctx context.Context) error {
		pods, err := m.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				return kube.NotYet(fmt.Errorf("pod %s still runs", p.Name))
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the Pods of the operator in namespace %s do not end: %w; see 'kubectl -n %[1]s describe pods'", namespace, err)
	}
	return nil
}
