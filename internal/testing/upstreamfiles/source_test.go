package upstreamfiles

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/kube/render"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// denied recognizes modules that cannot be had here.
var denied = regexp.MustCompile(`(403|404|410) \w+|requires go >=`)

// source is the folder of the row's module. The row is skipped if the module is refused.
func (r row) source(t *testing.T) string {
	t.Helper()
	path, version, _ := strings.Cut(r.module, "@")
	dir, err := upstream.GoModule{Path: path, Version: version}.Source(t.Context())
	if err != nil && denied.MatchString(err.Error()) {
		t.Skipf("%s is refused: %v", r.module, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// objects reads what a row without a chart installs.
func (r row) objects(t *testing.T, dir string) ([]*unstructured.Unstructured, error) {
	t.Helper()
	if r.kustomization != "" {
		return render.Build(filepath.Join(dir, filepath.FromSlash(r.kustomization)))
	}
	var objects []*unstructured.Unstructured
	for _, pattern := range r.manifests {
		names, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		if len(names) == 0 {
			t.Fatalf("%s has no %s", r.module, pattern)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			found, err := render.Decode(strings.NewReader(strings.NewReplacer(r.fill...).Replace(string(text))))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
			}
			objects = append(objects, found...)
		}
	}
	return objects, nil
}

// folder writes objects as a kustomization of one file, as packages have them.
func folder(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	return fixture.Folder(t, map[string]string{"kustomization.yaml": "resources: [rendered.yaml]\n", "rendered.yaml": string(document(t, objects))})
}

func document(t *testing.T, objects []*unstructured.Unstructured) []byte {
	t.Helper()
	var all bytes.Buffer
	for _, o := range objects {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "---\n%s", text)
	}
	return all.Bytes()
}

// named indexes objects.
func named(t *testing.T, objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		key := o.GroupVersionKind().GroupKind().String() + " " + o.GetName()
		if o.GetNamespace() != "" {
			key = o.GroupVersionKind().GroupKind().String() + " " + o.GetNamespace() + "/" + o.GetName()
		}
		if all[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		all[key] = o
	}
	return all
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
