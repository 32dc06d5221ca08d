// Package document reads the YAML that hooks and modules write as shell-operator and addon-operator read it: yes, no, on and off are
// text, as in enum: [on, off], and so are times. It checks no form and knows no keys.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/strictyaml"
)

// First reads the first document as plain data, as encoding/json decodes it with UseNumber. A document without content is nil. Of two
// equal keys the last counts.
func First(data []byte) (any, error) {
	var node yaml.Node
	if err := yaml.Unmarshal(data, &node); err != nil {
		return nil, err
	}
	return decoder{}.plain(&node, nil)
}

// Plain is First with numbers as encoding/json decodes them, float64.
func Plain(data []byte) (value any, err error) {
	if value, err = First(data); err != nil {
		return nil, err
	}
	asJSON, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	value = nil
	err = json.Unmarshal(asJSON, &value)
	return value, err
}

// All reads all documents. The scalars of the keys that text names are text in each document's root, exactly as written: name: 010 is
// "010". Two equal keys are an error. An error names the document by its number, from 1.
func All(stream []byte, text ...string) (all []any, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(stream))
	for n := 1; ; n++ {
		var node yaml.Node
		err := dec.Decode(&node)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		var value any
		if err == nil {
			value, err = decoder{unique: true}.plain(&node, text)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		all = append(all, value)
	}
}

type decoder struct {
	unique bool // whether equal keys are an error
}

func (d decoder) plain(document *yaml.Node, text []string) (any, error) {
	if len(document.Content) == 0 {
		return nil, nil
	}
	if err := strictyaml.Expand(document); err != nil {
		return nil, err
	}
	root := document.Content[0]
	for i := 0; root.Kind == yaml.MappingNode && i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if value.Kind == yaml.ScalarNode && value.ShortTag() != "!!null" && slices.Contains(text, key.Value) {
			value.Tag = "!!str"
		}
	}
	value, err := d.value(root)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err // a number such as .inf, which JSON does not have
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var out any
	err = dec.Decode(&out)
	return out, err
}

func (d decoder) value(n *yaml.Node) (value any, err error) {
	switch n.Kind {
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			if list[i], err = d.value(item); err != nil {
				return nil, err
			}
		}
		return list, nil
	case yaml.MappingNode:
		return d.mapping(n)
	}
	switch n.ShortTag() {
	case "!!bool", "!!int", "!!float", "!!null":
		err = n.Decode(&value)
		return value, err
	}
	return n.Value, nil
}

func (d decoder) mapping(n *yaml.Node) (map[string]any, error) {
	out := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		value, err := d.value(n.Content[i+1])
		if err != nil {
			return nil, err
		}
		_, again := out[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: a key must be text", key.Line)
		case again && d.unique:
			return nil, fmt.Errorf("line %d: a second %q in one mapping; remove one of them", key.Line, key.Value)
		}
		out[key.Value] = value
	}
	return out, nil
}
