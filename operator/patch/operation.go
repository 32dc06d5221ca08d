// Package patch changes objects of a cluster as hooks request through $KUBERNETES_PATCH_PATH (S-13).
//
// A hook writes a stream of operations. The whole stream is checked before anything is done. Then the operations are done in
// their order; one that fails does not stop those after it. The package does not own the objects: it neither labels
// nor prunes them.
package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/strictyaml"
	"github.com/sealift/sealift/internal/document"
	"github.com/sealift/sealift/operator/jq"
	"github.com/sealift/sealift/operator/shape"
)

// Operation is one change.
type Operation struct {
	kind               string // the word of field operation
	apiVersion, object string // object is the kind, by any of its names
	namespace, name    string
	subresource        string
	content            *unstructured.Unstructured // to create
	filter             *jq.Filter
	broken             error  // of a filter that cannot be compiled; only its own operation fails
	body               []byte // of a merge patch or a JSON patch
	ignoreMissing      bool
	// AfterFailure means that the operation is done even if its hook failed: it sets a status, and the hook requested that.
	AfterFailure bool
}

// String names the operation and its object.
func (o *Operation) String() string {
	at := o.object
	if o.namespace != "" {
		at += "/" + o.namespace
	}
	name := o.name
	if name == "" && o.content != nil {
		name = o.content.GetGenerateName()
	}
	return o.kind + " " + at + "/" + name
}

// The words of the field operation.
const (
	create            = "Create"
	createOrUpdate    = "CreateOrUpdate"
	createIfNotExists = "CreateIfNotExists"
	remove            = "Delete"
	removeBackground  = "DeleteInBackground"
	removeOrphaning   = "DeleteNonCascading"
	patchJQ           = "JQPatch"
	patchMerge        = "MergePatch"
	patchJSON         = "JSONPatch"
)

// texts are the fields that hold a text. A number there is its digits, as a name of digits alone is in YAML.
var texts = []string{"operation", "subresource", "apiVersion", "kind", "namespace", "name", "jqFilter"}

// forms are the fields that each operation needs. Those of other operations are allowed and ignored, and null is an absent
// field: hooks build operations with jq, even from objects without a namespace.
var forms = func() map[string]shape.Shape {
	fields := shape.Fields{"object": shape.Any(), "mergePatch": shape.Any(), "jsonPatch": shape.Any()}
	for _, text := range texts {
		fields[text] = shape.Text().OrNull()
	}
	for _, flag := range []string{"ignoreMissingObject", "ignoreHookError"} {
		fields[flag] = shape.Bool().OrNull()
	}
	creation, deletion := shape.Object(fields, "object"), shape.Object(fields, "kind", "name")
	return map[string]shape.Shape{
		create: creation, createOrUpdate: creation, createIfNotExists: creation,
		remove: deletion, removeBackground: deletion, removeOrphaning: deletion,
		patchJQ:    shape.Object(fields, "kind", "name", "jqFilter"),
		patchMerge: shape.Object(fields, "kind", "name", "mergePatch"),
		patchJSON:  shape.Object(fields, "kind", "name", "jsonPatch"),
	}
}()

// Parse reads a stream of operations, as JSON documents or as YAML documents. One mistake refuses the stream.
func Parse(stream []byte) ([]*Operation, error) {
	documents, err := split(stream)
	if err != nil {
		return nil, err
	}
	var all []*Operation
	var errs []error
	for i, content := range documents {
		o, mistakes := parse(content)
		for _, err := range mistakes {
			errs = append(errs, fmt.Errorf("object patch %d: %w", i+1, err))
		}
		all = append(all, o)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, nil
}

// split reads the stream as JSON documents, or else as YAML documents. Empty documents do not count.
func split(stream []byte) (documents []any, err error) {
	dec := json.NewDecoder(bytes.NewReader(stream))
	for dec.UseNumber(); ; {
		var value any
		if err = dec.Decode(&value); err != nil {
			break
		}
		documents = append(documents, value)
	}
	if !errors.Is(err, io.EOF) {
		if documents, err = document.All(stream, texts...); err != nil {
			return nil, fmt.Errorf("object patch: neither JSON nor YAML: %w", err)
		}
	}
	return slices.DeleteFunc(documents, func(value any) bool { return value == nil }), nil
}

// file is an operation in its written form.
type file struct {
	Operation           string `json:"operation"`
	APIVersion          string `json:"apiVersion"`
	Kind                string `json:"kind"`
	Namespace           string `json:"namespace"`
	Name                string `json:"name"`
	Subresource         string `json:"subresource"`
	Object              any    `json:"object"`
	JQFilter            string `json:"jqFilter"`
	MergePatch          any    `json:"mergePatch"`
	JSONPatch           any    `json:"jsonPatch"`
	IgnoreMissingObject bool   `json:"ignoreMissingObject"`
	IgnoreHookError     bool   `json:"ignoreHookError"`
}

func parse(content any) (*Operation, []error) {
	fields, ok := content.(map[string]any)
	if !ok {
		return nil, shape.Object(nil).Check(content, "")
	}
	word, _ := fields["operation"].(string)
	form, ok := forms[word]
	if !ok {
		words := slices.Sorted(maps.Keys(forms))
		return nil, []error{fmt.Errorf("operation: %q is unknown; %s", word, diag.DidYouMean(word, words, "known: "))}
	}
	for _, text := range texts {
		if number, ok := fields[text].(json.Number); ok {
			fields[text] = number.String()
		}
	}
	if form.Open().Check(fields, "") != nil {
		return nil, form.Check(fields, "") // with unknown keys, since one of them may be a mistyped field
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, []error{err}
	}
	var f file
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&f); err != nil {
		return nil, []error{err}
	}
	o := &Operation{
		kind: f.Operation, apiVersion: f.APIVersion, object: f.Kind, namespace: f.Namespace, name: f.Name,
		subresource: strings.TrimPrefix(f.Subresource, "/"), ignoreMissing: f.IgnoreMissingObject,
	}
	o.AfterFailure = f.IgnoreHookError && o.subresource == "status"
	return o, o.readBody(&f)
}

// readBody reads the object that the operation writes. Objects and patches may be text that holds YAML or JSON.
func (o *Operation) readBody(f *file) (errs []error) {
	refuse := func(key string, err error) {
		if err != nil {
			errs = append(errs, shape.Mistake{Path: key, Text: err.Error()})
		}
	}
	var err error
	switch o.kind {
	case create, createOrUpdate, createIfNotExists:
		refuse("object", o.readObject(f.Object))
	case patchJQ:
		if f.JQFilter == "" {
			refuse("jqFilter", errors.New("is empty"))
		}
		o.filter, o.broken = jq.Compile(f.JQFilter)
	case patchMerge:
		var value any
		if value, err = plain(f.MergePatch); err == nil {
			switch fields, ok := value.(map[string]any); {
			case !ok:
				err = errors.New("must be an object")
			case len(fields) == 0:
				err = errors.New("is empty")
			default:
				withoutServerFields(fields)
				o.body, err = json.Marshal(value)
			}
		}
		refuse("mergePatch", err)
	case patchJSON:
		var value any
		if value, err = plain(f.JSONPatch); err == nil {
			errs = append(errs, checkJSONPatch(value)...)
			withoutServerFieldsInSteps(value)
			o.body, err = json.Marshal(value)
		}
		refuse("jsonPatch", err)
	}
	if o.object == "" && errs == nil {
		refuse("kind", errors.New("is empty"))
	}
	if o.name == "" && o.content == nil && errs == nil {
		refuse("name", errors.New("is empty"))
	}
	if _, err := schema.ParseGroupVersion(o.apiVersion); err != nil {
		refuse("apiVersion", fmt.Errorf("%q is not <group>/<version>", o.apiVersion))
	}
	return errs
}

// steps are the operations of a JSON patch with the keys that each needs besides its path (RFC 6902, section 4).
var steps = map[string]string{"add": "value", "replace": "value", "test": "value", "remove": "", "move": "from", "copy": "from"}

func checkJSONPatch(value any) []error {
	step := shape.Object(shape.Fields{
		"op": shape.Word(slices.Sorted(maps.Keys(steps))...), "path": shape.Text(), "from": shape.Text(), "value": shape.Any(),
	}, "op", "path").Open()
	errs := shape.List(step).Between(1, 0).Check(value, "jsonPatch")
	if errs != nil {
		return errs
	}
	all, _ := value.([]any)
	for i := range all {
		one, _ := all[i].(map[string]any)
		op, _ := one["op"].(string)
		if _, ok := one[steps[op]]; steps[op] != "" && !ok {
			errs = append(errs, shape.Mistake{Path: fmt.Sprintf("jsonPatch[%d].%s", i, steps[op]), Text: "is required"})
		}
	}
	return errs
}

func (o *Operation) readObject(from any) error {
	value, err := plain(from)
	if err != nil {
		return err
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return errors.New("must be an object")
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	o.content = &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &o.content.Object); err != nil { // integers stay integers
		return err
	}
	if _, ok := fields["metadata"].(map[string]any); !ok || o.content.GetKind() == "" || o.content.GetAPIVersion() == "" || o.content.GetName()+o.content.GetGenerateName() == "" {
		return errors.New("needs apiVersion, kind, and metadata.name or metadata.generateName")
	}
	withoutServerFields(o.content.Object)
	o.apiVersion, o.object, o.namespace, o.name = o.content.GetAPIVersion(), o.content.GetKind(), o.content.GetNamespace(), o.content.GetName()
	return nil
}

// plain returns a value, and parses a text as YAML or JSON.
func plain(value any) (any, error) {
	text, ok := value.(string)
	if !ok {
		return value, nil
	}
	out, err := decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("contains neither YAML nor JSON: %w", err)
	}
	return out, nil
}

// decode reads a text of YAML. Numbers keep their digits.
func decode(text []byte) (value any, err error) {
	data, err := strictyaml.ToJSON(text)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err = dec.Decode(&value)
	return value, err
}
