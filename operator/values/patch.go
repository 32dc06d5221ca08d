package values

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/sealift/sealift/operator/shape"
)

// Operation is one step of a JSON patch (RFC 6902) that a hook wrote.
type Operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

var operationForm = shape.Object(shape.Fields{"op": shape.Text(), "path": shape.Text(), "value": shape.Any()}, "op", "path").Open()

// ParsePatch reads a stream of operations and of lists of operations, as hooks write it to $VALUES_JSON_PATCH_PATH and
// $CONFIG_VALUES_JSON_PATCH_PATH.
func ParsePatch(stream []byte) (all []Operation, err error) {
	dec := json.NewDecoder(bytes.NewReader(stream))
	for n := 1; ; n++ {
		var document json.RawMessage
		if err := dec.Decode(&document); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("values patch, document %d: not JSON: %w", n, err)
		}
		if string(document) == "null" { // from jq, when a hook has nothing to change
			continue
		}
		if document[0] != '[' {
			document = slices.Concat([]byte("["), document, []byte("]"))
		}
		var value any
		var operations []Operation
		if err := json.Unmarshal(document, &value); err != nil {
			return nil, err
		}
		if err := errors.Join(shape.List(operationForm).Check(value, "")...); err != nil {
			return nil, fmt.Errorf("values patch, document %d: %w", n, err)
		}
		if err := json.Unmarshal(document, &operations); err != nil {
			return nil, err
		}
		all = append(all, operations...)
	}
}

// CheckPatch refuses changes that a hook may not make. A hook of a module may change values below the key of the module, and a
// global hook those below global, and flags such as ingressNginxEnabled.
func CheckPatch(operations []Operation, key string) error {
	var errs []error
	for _, o := range operations {
		root, _, _ := strings.Cut(strings.TrimPrefix(o.Path, "/"), "/")
		switch {
		case o.Op == "add" && o.Value == nil:
			errs = append(errs, fmt.Errorf("patch operation 'add' for path '%s' has no value", o.Path))
		case o.Op != "add" && o.Op != "remove" && o.Op != "test":
			errs = append(errs, fmt.Errorf("unsupported patch operation '%s' for path '%s'; say add or remove", o.Op, o.Path))
		case !strings.HasPrefix(o.Path, "/"):
			errs = append(errs, fmt.Errorf("unacceptable patch operation for path '%s': it does not begin with /", o.Path))
		case root == key, key == GlobalKey && strings.HasSuffix(o.Path, EnabledSuffix) && o.Path == "/"+root:
		case key == GlobalKey:
			errs = append(errs, fmt.Errorf("unacceptable patch operation for path '%s' (only '%s' and '*%s' are permitted)", root, GlobalKey, EnabledSuffix))
		default:
			errs = append(errs, fmt.Errorf("unacceptable patch operation for path '%s' (only '%s' accepted)", root, key))
		}
	}
	return errors.Join(errs...)
}

// Apply applies operations to values, which are not changed. A new patch is strict: its hook fails if it removes a missing
// value. A patch that was kept from earlier runs is not, because values below it change.
func Apply(values map[string]any, operations []Operation, strict bool) (result map[string]any, changed bool, err error) {
	if len(operations) == 0 {
		result, err = throughJSON(values)
		return result, false, err
	}
	document, err := json.Marshal(values)
	if err != nil {
		return nil, false, err
	}
	options := jsonpatch.NewApplyOptions()
	options.AllowMissingPathOnRemove = !strict
	steps, err := json.Marshal(append([]Operation{}, operations...))
	if err != nil {
		return nil, false, err
	}
	patch, err := jsonpatch.DecodePatch(steps)
	if err == nil {
		document, err = patch.ApplyWithOptions(document, options)
	}
	if err != nil {
		return nil, false, fmt.Errorf("apply a values patch: %w", err)
	}
	if result, err = decode(document); err != nil {
		return nil, false, fmt.Errorf("apply a values patch: %w", err)
	}
	before, err := throughJSON(values)
	return result, !reflect.DeepEqual(before, result), err
}

// ApplyKept applies operations that were kept from earlier runs. An outdated one is ignored: an edit may have removed the map or
// the list that it adds to.
func ApplyKept(values map[string]any, operations []Operation) (map[string]any, error) {
	result, _, err := Apply(values, operations, false)
	if err == nil {
		return result, nil
	}
	if result, err = throughJSON(values); err != nil {
		return nil, err
	}
	for _, one := range operations {
		if next, _, err := Apply(result, []Operation{one}, false); err == nil {
			result = next
		}
	}
	return result, nil
}

// Compact adds new operations to the stored ones, and drops those that they replace: the last operation for a path wins, and
// one that adds or removes a value drops those below it. Each append to a list, a path that ends in /-, is kept. The result is
// sorted by path.
func Compact(kept, fresh []Operation) []Operation {
	out := []Operation{}
	for _, o := range slices.Concat(kept, fresh) {
		if o.Op == "test" {
			continue
		}
		out = slices.DeleteFunc(out, func(old Operation) bool {
			return old.Path == o.Path && !strings.HasSuffix(o.Path, "/-") || strings.HasPrefix(old.Path, o.Path+"/")
		})
		out = append(out, o)
	}
	slices.SortStableFunc(out, func(a, b Operation) int { return strings.Compare(a.Path, b.Path) })
	return out
}
