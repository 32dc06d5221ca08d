// Package render makes Kubernetes objects of files: of a kustomization directory, or of a stream of YAML documents. It needs
// no cluster, fetches nothing from the network, and runs no plugins.
package render

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/strictyaml"
)

// Decode reads the objects of a stream of YAML or JSON documents separated by "---". Empty documents are skipped, and a List is
// split. An error names the document by its number, counted from 1.
func Decode(r io.Reader) ([]*unstructured.Unstructured, error) { return strict.decode(r) }

// DecodeApplied reads the objects of a manifest that another tool has applied, such as Helm. Of a key that is given twice the last one
// counts, as for the API server. An object without a name, which the API server named, is left out.
func DecodeApplied(r io.Reader) ([]*unstructured.Unstructured, error) { return lenient.decode(r) }

// DecodeRendered reads the objects of a manifest that another tool is about to apply, such as Helm. It is like DecodeApplied, but keeps
// objects without a name.
func DecodeRendered(r io.Reader) ([]*unstructured.Unstructured, error) { return rendered.decode(r) }

// decoder decodes objects.
type decoder struct {
	json func(yaml []byte) ([]byte, error)
	skip bool // objects that cannot be named are left out
	keep bool // objects that cannot be named are kept
}

var (
	// strict refuses a key that is given twice. The server would see the last one only.
	strict   = decoder{json: yaml.YAMLToJSONStrict}
	lenient  = decoder{json: yaml.YAMLToJSON, skip: true}
	rendered = decoder{json: yaml.YAMLToJSON, keep: true}
)

func (d decoder) decode(r io.Reader) ([]*unstructured.Unstructured, error) {
	var objs []*unstructured.Unstructured
	docs := utilyaml.NewYAMLReader(bufio.NewReader(r))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return objs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read document %d: %w", n, err)
		}
		found, err := d.document(doc)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		objs = append(objs, found...)
	}
}

func (d decoder) document(doc []byte) ([]*unstructured.Unstructured, error) {
	if err := strictyaml.CheckAliases(doc); err != nil {
		return nil, err
	}
	data, err := d.json(doc)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(data, []byte("null")) {
		return nil, nil
	}
	return d.object(data)
}

func (d decoder) object(data []byte) ([]*unstructured.Unstructured, error) {
	// Not Unstructured.UnmarshalJSON, whose errors repeat the whole document: it may be a Secret.
	var content map[string]any
	if err := utiljson.Unmarshal(data, &content); err != nil {
		return nil, errors.New("not a Kubernetes object: not a mapping at its top")
	}
	return d.splitList(&unstructured.Unstructured{Object: content})
}

// splitList returns the objects of a List, including nested Lists, or the object itself. As for the API's own clients, an item
// of a list such as RoleList may leave out its kind.
func (d decoder) splitList(obj *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	of, list := strings.CutSuffix(obj.GetKind(), "List")
	if value, there := obj.Object["items"]; list && there && value == nil {
		return nil, nil
	}
	if !obj.IsList() {
		if err := checkShape(obj); err != nil && !d.keep {
			if d.skip {
				err = nil
			}
			return nil, err
		}
		return []*unstructured.Unstructured{obj}, nil
	}
	items, _ := obj.Object["items"].([]any)
	var objs []*unstructured.Unstructured
	for i, item := range items {
		content, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: item %d is not an object", obj.GetKind(), i+1)
		}
		one := &unstructured.Unstructured{Object: content}
		if _, named := content["kind"]; list && of != "" && !named {
			one.SetAPIVersion(obj.GetAPIVersion())
			one.SetKind(of)
		}
		found, err := d.splitList(one)
		if err != nil {
			return nil, fmt.Errorf("%s: item %d: %w", obj.GetKind(), i+1, err)
		}
		objs = append(objs, found...)
	}
	return objs, nil
}

// checkShape refuses objects that cannot be named, so that later readers need not check again.
func checkShape(obj *unstructured.Unstructured) error {
	for _, field := range []string{"apiVersion", "kind"} {
		if err := checkText(obj.Object, field, "", true); err != nil {
			return fmt.Errorf("not a Kubernetes object: %w", err)
		}
	}
	meta, ok := obj.Object["metadata"].(map[string]any)
	if !ok {
		return fmt.Errorf("%s: metadata is missing or not a mapping", obj.GetKind())
	}
	if prefix, ok := meta["generateName"].(string); ok && (meta["name"] == nil || meta["name"] == "") {
		return fmt.Errorf("%s: generateName %s cannot be applied; give it a metadata.name", obj.GetKind(), prefix)
	}
	if err := checkText(meta, "name", "metadata.", true); err != nil {
		return fmt.Errorf("%s: %w", obj.GetKind(), err)
	}
	if err := checkText(meta, "namespace", "metadata.", false); err != nil {
		return fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	return nil
}

// checkText catches names that YAML reads as something else, such as 1.10 or no.
func checkText(content map[string]any, field, prefix string, required bool) error {
	value := content[field]
	if value == nil || value == "" {
		if required {
			return fmt.Errorf("%s%s is missing", prefix, field)
		}
		return nil
	}
	if _, ok := value.(string); !ok {
		return fmt.Errorf("%s%s is a %T, not a string: quote it", prefix, field, value)
	}
	return nil
}
