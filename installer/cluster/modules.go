package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/document"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube/ensure"
)

// givenAnnotation has the Installer's previous values, as JSON. What differs from it in the ConfigMap is an edit of an
// administrator, or of a hook.
const givenAnnotation = "sealift.dev/installer"

// conflictTime is how long the modules' ConfigMap is tried to be written while others change it.
const (
	conflictTime  = 10 * time.Second
	conflictPause = 20 * time.Millisecond // on average half of it, before the second attempt
)

// configureModules writes the Installer's module options into their ConfigMap, and creates that, with its namespace, if it is missing.
// Changes by others are kept.
func configureModules(ctx context.Context, client kubernetes.Interface, namespace string, modules Modules, output io.Writer) error {
	name := modules.ConfigMap
	given, err := json.Marshal(modules.Sections)
	if err != nil {
		return fmt.Errorf("options of modules: %w", err)
	}
	if err := ensure.Namespace(ctx, client.CoreV1(), namespace); err != nil {
		return fmt.Errorf("make namespace %s for modules: %w", namespace, err)
	}
	configMaps := client.CoreV1().ConfigMaps(namespace)
	other := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	ctx, cancel := context.WithTimeout(ctx, conflictTime)
	defer cancel()
	pauses := poll.Backoff{First: conflictPause, Longest: time.Second}
	err = pauses.Until(ctx, nil, func(ctx context.Context) (bool, error) {
		live, err := configMaps.Get(ctx, name, metav1.GetOptions{})
		absent := apierrors.IsNotFound(err)
		if absent {
			live = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		} else if err != nil {
			return false, err
		}
		data, err := configured(live, given, output)
		if err != nil {
			return false, err
		}
		if !absent && maps.Equal(data, live.Data) && live.Annotations[givenAnnotation] == string(given) {
			return true, nil
		}
		live.Data = data
		metav1.SetMetaDataAnnotation(&live.ObjectMeta, givenAnnotation, string(given))
		if absent {
			_, err = configMaps.Create(ctx, live, metav1.CreateOptions{})
		} else {
			_, err = configMaps.Update(ctx, live, metav1.UpdateOptions{})
		}
		if other(err) {
			err = poll.NotYet(err)
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("write what the Installer says of modules to ConfigMap %s/%s: %w", namespace, name, err)
	}
	return nil
}

// refuseStrangers refuses a namespace with Helm releases that are not modules of the bundle: the operator would uninstall them. Once
// the ConfigMap is the Installer's, such a release is a module that the bundle no longer has, and its end is wanted.
func refuseStrangers(ctx context.Context, client kubernetes.Interface, namespace string, modules Modules) error {
	live, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, modules.ConfigMap, metav1.GetOptions{})
	if err == nil && live.Annotations[givenAnnotation] != "" {
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read ConfigMap %s/%s: %w", namespace, modules.ConfigMap, err)
	}
	revisions, err := client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		return fmt.Errorf("list releases of Helm in namespace %s: %w", namespace, err)
	}
	strangers := map[string]bool{}
	for _, revision := range revisions.Items {
		release := revision.Labels["name"]
		if _, isModule := modules.Sections[helm.ModuleKey(release)+helm.EnabledSuffix]; !isModule {
			strangers[release] = true
		}
	}
	if len(strangers) > 0 {
		return fmt.Errorf("namespace %s has Helm releases that are not modules of the bundle, so its operator would uninstall them: %s; "+
			"stop your own operator, add these modules to the Installer or uninstall the releases, and run the same command again",
			namespace, strings.Join(slices.Sorted(maps.Keys(strangers)), ", "))
	}
	return nil
}

// configured returns the data of a ConfigMap with the Installer's current values. A key that is not YAML is kept: its operator
// complains about it, and its meaning is unknown.
func configured(live *corev1.ConfigMap, given []byte, output io.Writer) (map[string]string, error) {
	var before, now map[string]any
	if err := json.Unmarshal(given, &now); err != nil {
		return nil, err
	}
	if text := live.Annotations[givenAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &before); err != nil {
			return nil, fmt.Errorf("annotation %s: %w; if you remove it, all differences from the Installer count as edits", givenAnnotation, err)
		}
	}
	data := maps.Clone(live.Data)
	if data == nil {
		data = map[string]string{}
	}
	for _, key := range slices.Sorted(maps.Keys(union(before, now))) {
		has, err := document.Plain([]byte(data[key])) // as the operator of the module reads it
		if err != nil {
			fmt.Fprintf(output, "key %s of ConfigMap %s is not YAML and is left alone: %v\n", key, live.Name, err)
			continue
		}
		wanted := keepEdits(before[key], now[key], has)
		switch {
		case reflect.DeepEqual(wanted, has):
		case wanted == nil:
			delete(data, key)
		default:
			text, err := yaml.Marshal(wanted)
			if err != nil {
				return nil, err
			}
			data[key] = string(text)
		}
		if !reflect.DeepEqual(wanted, now[key]) {
			fmt.Fprintf(output, "key %s of ConfigMap %s keeps an edit that differs from the Installer\n", key, live.Name)
		}
	}
	return data, nil
}

// keepEdits returns the merged value of the previous and current Installer values and the existing one, has. Maps are compared key
// by key; anything else that has changed is an edit and stays. nil is nothing.
func keepEdits(before, now, has any) any {
	if reflect.DeepEqual(before, has) {
		return now
	}
	there, isMap := has.(map[string]any)
	wanted, wantsMap := now.(map[string]any)
	if !isMap || !wantsMap && now != nil {
		return has
	}
	old, _ := before.(map[string]any)
	merged := maps.Clone(there)
	for key := range union(old, wanted) {
		if value := keepEdits(old[key], wanted[key], there[key]); value != nil {
			merged[key] = value
		} else {
			delete(merged, key)
		}
	}
	if now == nil && len(merged) == 0 {
		return nil
	}
	return merged
}

// union has the keys of two maps.
func union(a, b map[string]any) map[string]bool {
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	return keys
}
