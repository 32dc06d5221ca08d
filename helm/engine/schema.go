package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// closeSchemas sees to it that the schemas of a chart and its dependencies are checked without any other document: Helm would fetch what
// they refer to, with the network and the files of this process. What such a reference stands for is not checked, as with Helm's own urn:.
func closeSchemas(c *chart.Chart) error {
	if c.Schema != nil {
		if err := closeSchema(c); err != nil {
			return fmt.Errorf("values.schema.json of the chart %s: %w", c.Name(), oneLine(err))
		}
	}
	for _, d := range c.Dependencies() {
		if err := closeSchemas(d); err != nil {
			return err
		}
	}
	return nil
}

func closeSchema(c *chart.Chart) error {
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.Schema))
	if err != nil {
		return err
	}
	ids := make(map[string]bool)
	identify(schema, ids)
	if withoutOthers(schema, ids) {
		if c.Schema, err = json.Marshal(schema); err != nil {
			return err
		}
	}
	// a reference may have other forms, such as a $schema of one's own
	const name = "file:///values.schema.json" // as with Helm
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(alone{})
	if err := compiler.AddResource(name, schema); err != nil {
		return err
	}
	_, err = compiler.Compile(name)
	return err
}

// identify collects the names that a schema gives to its parts.
func identify(schema any, ids map[string]bool) {
	switch s := schema.(type) {
	case map[string]any:
		for _, key := range []string{"$id", "id"} {
			if id, ok := s[key].(string); ok {
				ids[documentOf(id)] = true
			}
		}
		for _, part := range s {
			identify(part, ids)
		}
	case []any:
		for _, part := range s {
			identify(part, ids)
		}
	}
}

// withoutOthers removes references to other documents. It reports whether there were any.
func withoutOthers(schema any, ids map[string]bool) (changed bool) {
	switch s := schema.(type) {
	case map[string]any:
		if ref, ok := s["$ref"].(string); ok && documentOf(ref) != "" && !ids[documentOf(ref)] {
			delete(s, "$ref")
			changed = true
		}
		for _, part := range s {
			changed = withoutOthers(part, ids) || changed
		}
	case []any:
		for _, part := range s {
			changed = withoutOthers(part, ids) || changed
		}
	}
	return changed
}

// documentOf returns the part of a reference that names a document.
func documentOf(reference string) string {
	name, _, _ := strings.Cut(reference, "#")
	return name
}

// alone has no documents.
type alone struct{}

// Load implements jsonschema.URLLoader.
func (alone) Load(address string) (any, error) {
	if strings.HasPrefix(address, "urn:") {
		return true, nil // as Helm
	}
	return nil, errors.New("schemas of charts are read without other documents")
}
