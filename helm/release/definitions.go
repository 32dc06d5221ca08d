package release

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	v1 "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// Helm puts the definitions in crds/ into the manifest of an installation if it is asked to, but never into that of an upgrade, which deletes
// what the new manifest lacks: the definitions, and with them all objects of their kinds. So upgrades get them here.

const definitionKind = "CustomResourceDefinition"

// document is what a document says about definitions. A list has several.
type document struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name        string         `json:"name"`
		Annotations map[string]any `json:"annotations"`
	} `json:"metadata"`
	Items []document `json:"items"`
}

// definitions returns the names of its definitions.
func (d document) definitions() (names []string) {
	if d.Kind == definitionKind {
		names = append(names, d.Metadata.Name)
	}
	for _, item := range d.Items {
		names = append(names, item.definitions()...)
	}
	return names
}

// defined adds the names of the definitions in a manifest.
func defined(manifest string, into map[string]bool) {
	for _, text := range releaseutil.SplitManifests(manifest) {
		var d document
		if !strings.Contains(text, definitionKind) || yaml.Unmarshal([]byte(text), &d) != nil {
			continue
		}
		for _, name := range d.definitions() {
			into[name] = true
		}
	}
}

// definitions returns what an upgrade's manifest needs of crds/: all of it, or the definitions that the release has. Those that the
// templates made are there already.
func (s *session) definitions(name string, c *chart.Chart, all bool, rendered map[string]string) (string, error) {
	crds := c.CRDObjects()
	if len(crds) == 0 {
		return "", nil
	}
	had, made := make(map[string]bool), make(map[string]bool)
	last, err := s.cfg.Releases.Last(name)
	if err != nil {
		return "", err
	}
	defined(plain(last).Manifest, had)
	// after a failure, Helm compares with the revision before
	deployed, err := s.cfg.Releases.Deployed(name)
	if err != nil && !errors.Is(err, driver.ErrNoDeployedReleases) {
		return "", err
	}
	defined(plain(deployed).Manifest, had)
	for _, text := range rendered {
		defined(text, made)
	}
	var out strings.Builder
	for _, crd := range crds {
		if err := include(&out, string(crd.File.Data), all, had, made); err != nil {
			return "", fmt.Errorf("%s: %w", crd.Filename, err)
		}
	}
	return out.String(), nil
}

// include adds the documents of one file.
func include(out *strings.Builder, file string, all bool, had, made map[string]bool) error {
	texts := releaseutil.SplitManifests(file)
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		text := texts[key]
		var d document
		if err := yaml.Unmarshal([]byte(text), &d); err != nil {
			if all {
				return err
			}
			continue // nobody asked for it
		}
		names := d.definitions()
		wanted := all && d.Kind != "" || slices.ContainsFunc(names, func(name string) bool { return had[name] })
		lacks := len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return !made[name] })
		if !wanted || !lacks {
			continue
		}
		for _, name := range names {
			made[name] = true
		}
		if _, hook := d.Metadata.Annotations[v1.HookAnnotation]; hook {
			var err error
			if text, err = withoutHook(text); err != nil {
				return err
			}
		}
		out.WriteString("---\n" + text + "\n")
	}
	return nil
}

// withoutHook makes a hook an object of the manifest. In crds/ the annotation says nothing: Helm 2 had hooks for definitions.
func withoutHook(text string) (string, error) {
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return "", err
	}
	object := make(map[string]any)
	if err := utiljson.Unmarshal(asJSON, &object); err != nil {
		return "", err
	}
	unstructured.RemoveNestedField(object, "metadata", "annotations", v1.HookAnnotation)
	out, err := yaml.Marshal(object)
	return string(out), err
}

// owner is a cluster in which the definitions that Helm creates before it renders the chart belong to the release. Otherwise Helm would
// refuse them as somebody else's when the manifest has them, too.
type owner struct {
	*kube.Client
	release, namespace string
}

// Create creates objects.
func (o owner) Create(list kube.ResourceList, options ...kube.ClientCreateOption) (*kube.Result, error) {
	for _, info := range list {
		if info.Object.GetObjectKind().GroupVersionKind().Kind != definitionKind {
			continue
		}
		object, err := meta.Accessor(info.Object)
		if err != nil {
			return nil, err
		}
		object.SetLabels(with(object.GetLabels(), map[string]string{"app.kubernetes.io/managed-by": "Helm"}))
		object.SetAnnotations(with(object.GetAnnotations(), map[string]string{
			"meta.helm.sh/release-name": o.release, "meta.helm.sh/release-namespace": o.namespace,
		}))
	}
	return o.Client.Create(list, options...)
}

func with(had, more map[string]string) map[string]string {
	all := make(map[string]string)
	maps.Copy(all, had)
	maps.Copy(all, more)
	return all
}
