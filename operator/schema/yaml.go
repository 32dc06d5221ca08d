package schema

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// decode reads a YAML document as upstream reads schemas: yes, no, on and off are text, as in enum: [on, off], and so are times. It returns
// plain data as encoding/json decodes it, with YAML's types of numbers. An empty document is nil.
func decode(data []byte) (any, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	d := decoder{room: mostNodes}
	return d.value(document.Content[0])
}

// decoder counts nodes, because aliases can make a small document grow without an end.
type decoder struct{ room int }

func (d *decoder) value(n *yaml.Node) (value any, err error) {
	if d.room--; d.room < 0 {
		return nil, fmt.Errorf("grows to more than %d nodes when its aliases are filled in", mostNodes)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return d.value(n.Alias)
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

func (d *decoder) mapping(n *yaml.Node) (map[string]any, error) {
	out, merged := map[string]any{}, []any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, node := n.Content[i], n.Content[i+1]
		value, err := d.value(node)
		if err != nil {
			return nil, err
		}
		switch {
		case key.Kind == yaml.AliasNode && key.Alias.Kind == yaml.ScalarNode:
			out[key.Alias.Value] = value
		case key.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: a key must be text", key.Line)
		case key.ShortTag() == "!!merge":
			if list, ok := value.([]any); ok {
				merged = append(merged, list...)
			} else {
				merged = append(merged, value)
			}
		default:
			out[key.Value] = value
		}
	}
	for _, one := range merged { // earlier ones win, and own keys win over all
		below, ok := one.(map[string]any)
		if !ok {
			return nil, errors.New("<< must be a mapping or a list of them")
		}
		for key, value := range below {
			if _, mine := out[key]; !mine {
				out[key] = copied(value)
			}
		}
	}
	return out, nil
}
