package render_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/kube/render"
)

func ExampleDecode() {
	objects, err := render.Decode(strings.NewReader(`
apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: greeting, namespace: web}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range objects {
		fmt.Println(o.GetKind(), o.GetNamespace(), o.GetName())
	}
	// Output:
	// Namespace  web
	// ConfigMap web greeting
}

func ExampleBuild() {
	dir, err := os.MkdirTemp("", "kustomization-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for name, text := range map[string]string{
		"kustomization.yaml": "namePrefix: my-\nresources: [greeting.yaml]\n",
		"greeting.yaml":      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeting}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}
	objects, err := render.Build(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(objects[0].GetKind(), objects[0].GetName())
	// Output:
	// ConfigMap my-greeting
}

func ExampleIncluded() {
	fmt.Println(render.Included([]byte("resources: [greeting.yaml, ../base]\npatches: [{path: color.yaml}]\n")))
	// Output:
	// [greeting.yaml ../base color.yaml] <nil>
}
