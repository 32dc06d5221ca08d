package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/itchyny/gojq"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"

	"github.com/sealift/sealift/fleet/ocm"
)

// maxJQ is how long one jq expression may take. An expression such as def f: f; f never ends.
const maxJQ = time.Second

// fieldPath is where a field is: names in maps, as strings, and places in lists, as ints.
type fieldPath []any

// finder finds the fields of an object that an expression selects, in their order. The object is not changed.
type finder func(context.Context, *unstructured.Unstructured) ([]fieldPath, error)

// finders returns one finder for each expression of a rule.
func finders(field ocm.IgnoreField) (list []finder) {
	for _, text := range field.JSONPointers {
		list = append(list, func(_ context.Context, o *unstructured.Unstructured) ([]fieldPath, error) { return byPointer(o, text) })
	}
	for _, text := range field.JSONPaths {
		list = append(list, func(_ context.Context, o *unstructured.Unstructured) ([]fieldPath, error) { return byJSONPath(o, text) })
	}
	for _, text := range field.JQPathExpressions {
		list = append(list, func(ctx context.Context, o *unstructured.Unstructured) ([]fieldPath, error) {
			return byJQ(ctx, o, text)
		})
	}
	return list
}

// byPointer finds the field of an RFC 6901 pointer.
func byPointer(object *unstructured.Unstructured, text string) ([]fieldPath, error) {
	rest, found := strings.CutPrefix(text, "/")
	if !found {
		return nil, fmt.Errorf("JSON pointer %q does not begin with a slash", text)
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	var path fieldPath
	var node any = object.Object
	for part := range strings.SplitSeq(rest, "/") {
		var step any = unescape.Replace(part)
		if list, ok := node.([]any); ok {
			at, err := strconv.Atoi(part)
			if err != nil || at < 0 || at >= len(list) {
				return nil, nil // the list has no such element
			}
			step = at
		}
		path, node = append(path, step), child(node, step)
	}
	return []fieldPath{path}, nil
}

// lastName is the end of a JSON path that selects fields by name.
var lastName = regexp.MustCompile(`^(.*?)(?:\.((?:[^.\[\]()'"\\]|\\.)+)|\['([^']+)'\])$`)

// byJSONPath finds fields by a path such as .spec.containers[?(@.name=="web")].image. A path to elements of a list selects nothing, as
// with upstream: jqPathExpressions select those.
func byJSONPath(object *unstructured.Unstructured, text string) ([]fieldPath, error) {
	text = strings.TrimPrefix(strings.TrimSpace(text), "$")
	if !strings.HasPrefix(text, ".") && !strings.HasPrefix(text, "[") {
		text = "." + text
	}
	if err := jsonpath.New("ignoreFields").Parse("{" + text + "}"); err != nil {
		return nil, fmt.Errorf("JSON path %q: %w", text, err)
	}
	parts := lastName.FindStringSubmatch(text)
	if parts == nil {
		return nil, nil
	}
	name := strings.ReplaceAll(parts[2], `\.`, ".") + parts[3]
	if parts[1] == "" {
		return []fieldPath{{name}}, nil
	}
	j := jsonpath.New("ignoreFields").AllowMissingKeys(true)
	if err := j.Parse("{" + parts[1] + "}"); err != nil {
		return nil, fmt.Errorf("JSON path %q: %w", text, err)
	}
	results, err := j.FindResults(object.Object)
	if err != nil {
		return nil, fmt.Errorf("JSON path %q: %w", text, err)
	}
	var paths []fieldPath
	for _, result := range slices.Concat(results...) {
		if parent, ok := result.Interface().(map[string]any); ok {
			if path, found := locate(object.Object, parent); found {
				paths = append(paths, append(path, name))
			}
		}
	}
	return paths, nil
}

// locate finds a map within an object. JSON paths give values, not where they are.
func locate(node any, wanted map[string]any) (fieldPath, bool) {
	within := func(step, node any) (fieldPath, bool) {
		path, found := locate(node, wanted)
		return append(fieldPath{step}, path...), found
	}
	switch node := node.(type) {
	case map[string]any:
		if reflect.ValueOf(node).Pointer() == reflect.ValueOf(wanted).Pointer() {
			return nil, true
		}
		for name, value := range node {
			if path, found := within(name, value); found {
				return path, true
			}
		}
	case []any:
		for i, value := range node {
			if path, found := within(i, value); found {
				return path, true
			}
		}
	}
	return nil, false
}

// byJQ finds fields by a jq path expression such as .spec.containers[] | select(.name == "web") | .image.
func byJQ(ctx context.Context, object *unstructured.Unstructured, text string) ([]fieldPath, error) {
	query, err := gojq.Parse("path(" + text + ")")
	if err != nil {
		return nil, fmt.Errorf("jq expression %q: %w", text, err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, fmt.Errorf("jq expression %q: %w", text, err)
	}
	ctx, cancel := context.WithTimeout(ctx, maxJQ)
	defer cancel()
	var paths []fieldPath
	for all := code.RunWithContext(ctx, object.DeepCopy().Object); ; { // it changes the types of numbers
		result, more := all.Next()
		if !more {
			return paths, nil
		}
		if err, failed := result.(error); failed {
			return nil, fmt.Errorf("jq expression %q: %w", text, err)
		}
		path, err := concrete(object.Object, result)
		if err != nil {
			return nil, fmt.Errorf("jq expression %q: %w", text, err)
		}
		paths = append(paths, path)
	}
}

// concrete reads a path of jq, in which a negative place counts from the end of a list.
func concrete(node, result any) (fieldPath, error) {
	steps, _ := result.([]any)
	if len(steps) == 0 {
		return nil, errors.New("it selects the whole object")
	}
	path := make(fieldPath, len(steps))
	for i, step := range steps {
		switch at := step.(type) {
		case string:
		case int:
			if list, ok := node.([]any); ok && at < 0 {
				step = at + len(list)
			}
		default:
			return nil, fmt.Errorf("it selects %v; select fields and elements of lists", step)
		}
		path[i], node = step, child(node, step)
	}
	return path, nil
}

// child returns a field of a map or an element of a list, or nil.
func child(node, step any) any {
	switch step := step.(type) {
	case string:
		fields, _ := node.(map[string]any)
		return fields[step]
	case int:
		if list, _ := node.([]any); step >= 0 && step < len(list) {
			return list[step]
		}
	}
	return nil
}

// counterpart returns the field of another object that is at a path of the first one. Elements of lists with a name are found by it.
func counterpart(node, other any, path fieldPath) (any, bool) {
	for _, step := range path {
		here := child(node, step)
		if at, ok := step.(int); ok {
			list, _ := other.([]any)
			if name, named := child(here, "name").(string); named {
				at = slices.IndexFunc(list, func(e any) bool {
					other, _ := child(e, "name").(string)
					return other == name
				})
			}
			if at < 0 || at >= len(list) {
				return nil, false
			}
			node, other = here, list[at]
			continue
		}
		fields, _ := other.(map[string]any)
		value, found := fields[step.(string)]
		if !found {
			return nil, false
		}
		node, other = here, value
	}
	return other, true
}

// edit sets the field at a path, or removes it, and returns the changed node. Where the path leads through something else, nothing changes.
func edit(node any, path fieldPath, to any, remove bool) any {
	switch step := path[0].(type) {
	case string:
		fields, ok := node.(map[string]any)
		if !ok && (node != nil || remove) {
			return node
		}
		if fields == nil {
			fields = map[string]any{}
		}
		switch {
		case len(path) > 1:
			if _, found := fields[step]; found || !remove {
				fields[step] = edit(fields[step], path[1:], to, remove)
			}
		case remove:
			delete(fields, step)
		default:
			fields[step] = to
		}
		return fields
	case int:
		list, ok := node.([]any)
		switch {
		case !ok || step < 0 || step >= len(list):
		case len(path) > 1:
			list[step] = edit(list[step], path[1:], to, remove)
		case remove:
			return slices.Delete(list, step, step+1)
		default:
			list[step] = to
		}
	}
	return node
}
