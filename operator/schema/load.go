// Package schema checks the values of modules against the OpenAPI schemas that a module, or the folder of global hooks,
// brings: openapi/config-values.yaml for what administrators set, and openapi/values.yaml for what hooks add to it.
//
// The extensions of addon-operator are understood: x-extend, x-required-for-helm, x-deckhouse-validations, and
// additionalProperties: false as the default of every object that names properties. A reference must stay in the folder.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/document"
)

// The files of a folder of schemas.
const (
	configFile = "config-values.yaml"
	valuesFile = "values.yaml"
)

const (
	// fileSize bounds each file, mostNodes the size of a schema after its references are filled in.
	fileSize  = 4 << 20
	mostNodes = 50_000
)

// Set is the schemas of a module. Its zero value finds everything valid.
type Set struct {
	config, values, helm *compiled
}

// compiled is a schema without references, as plain data for defaults and as the type that the validator takes, and its
// rules in CEL.
type compiled struct {
	plain map[string]any
	spec  *spec.Schema
	rules *rules
}

// Load reads the schemas of a folder. A file, or the folder, may be missing.
func Load(dir string) (*Set, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return &Set{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	l := &loader{root: root, files: map[string]map[string]any{}}
	s := &Set{}
	if s.config, err = l.compile(configFile, false); err == nil {
		if s.values, err = l.compile(valuesFile, false); err == nil {
			s.helm, err = l.compile(valuesFile, true)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("schema %s/%w", dir, err)
	}
	return s, nil
}

// loader reads the files of one folder.
type loader struct {
	root  *os.Root
	files map[string]map[string]any
	nodes int
	rules ruleReader
}

// compile makes a schema of a file; nil is a file that does not exist.
func (l *loader) compile(file string, forHelm bool) (*compiled, error) {
	if _, err := l.root.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	plain, err := l.read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if plain == nil {
		return nil, nil // the file has nothing but comments
	}
	l.nodes = 0
	full, err := l.resolve(file, plain, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	plain, ok := full.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: is not a schema", file)
	}
	delete(plain, "definitions")
	if err := checkWords(plain, ""); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	forbidUnknown(plain, true)
	if forHelm {
		if err := requireForHelm(plain, ""); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	requireNoDefaults(plain)
	data, err := json.Marshal(plain)
	if err != nil {
		return nil, err
	}
	c := &compiled{plain: plain, spec: &spec.Schema{}}
	if err := json.Unmarshal(data, c.spec); err != nil {
		return nil, fmt.Errorf("%s: is not a schema: %w", file, err)
	}
	if c.rules, err = l.rules.read(plain, ""); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// read returns a file as plain data, with the additions of x-extend.
func (l *loader) read(file string) (map[string]any, error) {
	if known, ok := l.files[file]; ok {
		return known, nil
	}
	f, err := regularfile.OpenIn(l.root, file)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, fileSize+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(data) > fileSize {
		return nil, fmt.Errorf("larger than %d MiB", fileSize>>20)
	}
	content, err := document.First(data)
	if err != nil {
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	if content, err = plainOf(content); err != nil {
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	plain, ok := content.(map[string]any)
	if !ok && content != nil {
		return nil, errors.New("is not a mapping")
	}
	l.files[file] = plain // before x-extend, so that a circle of them ends
	if extend, ok := plain["x-extend"].(map[string]any); ok {
		name, _ := extend["schema"].(string)
		if name == "" {
			return plain, nil // it names nothing to extend
		}
		base, err := l.read(name)
		if errors.Is(err, fs.ErrNotExist) && name == configFile {
			return plain, nil // a module may have no values for administrators
		}
		if err != nil {
			return nil, fmt.Errorf("x-extend.schema %q: %w", name, err)
		}
		merge(plain, base)
	}
	return plain, nil
}

// checkWords finds unknown types and invalid patterns. The validator would take every value for valid, or fail with each.
func checkWords(schema map[string]any, path string) error {
	var errs []error
	words, ok := schema["type"].([]any)
	if text, one := schema["type"].(string); one {
		words, ok = []any{text}, true
	}
	if _, given := schema["type"]; given && !ok {
		errs = append(errs, fmt.Errorf("%stype: must be the name of a type, or a list of them", path))
	}
	for _, word := range words {
		if text, _ := word.(string); !slices.Contains(typeNames(), text) {
			errs = append(errs, fmt.Errorf("%stype: %v is not a type; %s", path, word, diag.DidYouMean(text, typeNames(), "known: ")))
		}
	}
	pattern := func(key, text string) {
		if _, err := regexp.Compile(text); err != nil {
			errs = append(errs, fmt.Errorf("%s%s: %w", path, key, err))
		}
	}
	if text, ok := schema["pattern"].(string); ok {
		pattern("pattern", text)
	}
	all, _ := schema["patternProperties"].(map[string]any)
	for _, text := range slices.Sorted(maps.Keys(all)) {
		pattern("patternProperties", text)
	}
	below(schema, func(key string, part map[string]any) { errs = append(errs, checkWords(part, path+key+".")) })
	return errors.Join(errs...)
}

// merge adds the content of an extended schema to a schema. Its own entries win.
func merge(own, base map[string]any) {
	for _, key := range []string{"definitions", "properties", "patternProperties"} {
		added, _ := base[key].(map[string]any)
		if mine, ok := own[key].(map[string]any); ok {
			added = maps.Clone(added)
			if added == nil {
				added = map[string]any{}
			}
			maps.Copy(added, mine)
		}
		if added != nil {
			own[key] = added
		}
	}
	for key, value := range base {
		if _, mine := own[key]; !mine && (key == "title" || key == "description" || strings.HasPrefix(key, "x-")) {
			own[key] = value
		}
	}
	if more, ok := base["required"].([]any); ok {
		mine, _ := own["required"].([]any)
		own["required"] = union(mine, more)
	}
}

func union(a, b []any) []any {
	out := slices.Clone(a)
	for _, one := range b {
		if !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

// resolve copies a schema with its references filled in. within are the references that it is part of.
func (l *loader) resolve(file string, node any, within []string) (any, error) {
	if l.nodes++; l.nodes > mostNodes {
		return nil, fmt.Errorf("grows to more than %d nodes when its references are filled in", mostNodes)
	}
	schema, ok := node.(map[string]any)
	if !ok {
		return node, nil // additionalProperties: false
	}
	if ref, ok := schema["$ref"].(string); ok {
		return l.follow(file, ref, within)
	}
	out := copied(schema).(map[string]any) // a copy has the type of its source
	delete(out, "definitions")             // their used parts are filled in where they are used
	var errs []error
	put := func(set func(any), part any) {
		resolved, err := l.resolve(file, part, within)
		errs = append(errs, err)
		set(resolved)
	}
	for _, key := range []string{"properties", "patternProperties"} {
		if all, ok := out[key].(map[string]any); ok {
			for name, part := range all {
				put(func(v any) { all[name] = v }, part)
			}
		}
	}
	for _, key := range []string{"items", "additionalProperties", "not", "allOf", "anyOf", "oneOf"} {
		switch part := out[key].(type) {
		case map[string]any:
			put(func(v any) { out[key] = v }, part)
		case []any:
			for i := range part {
				put(func(v any) { part[i] = v }, part[i])
			}
		}
	}
	return out, errors.Join(errs...)
}

// follow fills in one reference, such as #/definitions/size or sizes.yaml#/definitions/size.
func (l *loader) follow(file, ref string, within []string) (any, error) {
	name, pointer, _ := strings.Cut(ref, "#")
	if strings.Contains(name, "://") {
		return nil, fmt.Errorf("$ref %q: schemas are read from their folder only", ref)
	}
	if name == "" {
		name = file
	}
	full := name + "#" + pointer
	if slices.Contains(within, full) {
		return nil, fmt.Errorf("$ref %q is circular", ref)
	}
	content, err := l.read(name)
	if err != nil {
		return nil, fmt.Errorf("$ref %q: %w", ref, err)
	}
	var node any = content
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if step == "" {
			continue
		}
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch n := node.(type) {
		case map[string]any:
			node = n[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(n) {
				return nil, fmt.Errorf("$ref %q does not exist", ref)
			}
			node = n[i]
		default:
			node = nil
		}
		if node == nil {
			return nil, fmt.Errorf("$ref %q does not exist", ref)
		}
	}
	return l.resolve(name, node, append(slices.Clip(within), full))
}
