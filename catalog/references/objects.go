package references

import (
	"context"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/catalog/references/object"
	"github.com/sealift/sealift/catalog/script"
)

// Object identifies one object of Kubernetes in an add-on's YAML.
type Object struct {
	APIVersion string
	Kind       string
	Name       string // with the namespace, as in kube-system/coredns; may be empty
}

// Objects lists the objects in the YAML of an add-on, each once, in order: those of rendered kustomizations, of other YAML files and
// of here-documents in install.sh. Objects of charts are not among them.
func Objects(ctx context.Context, dir string) ([]Object, error) {
	hooks, err := script.Load(dir)
	if err != nil {
		hooks = nil
	}
	var objects []Object
	err = check(ctx, dir, hooks, nil, func(c *checker) { objects = c.objects })
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.key(), b.key()) })
	return slices.Compact(objects), err
}

func (o Object) key() string { return o.Kind + "\x00" + o.Name + "\x00" + o.APIVersion }

// note records an object.
func (c *checker) note(node *yaml.Node) {
	kind := object.Text(node, "kind")
	c.objects = append(c.objects, Object{
		APIVersion: object.Text(node, "apiVersion"), Kind: kind, Name: strings.TrimPrefix(strings.TrimPrefix(object.Name(node), kind), " "),
	})
}
