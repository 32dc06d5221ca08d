package channel

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// spell spells the keys of a document like their fields. kOps reads its files without regard to the case of keys. The keys of a
// map, such as labels, are kept.
func spell(node *yaml.Node, as reflect.Type) {
	for as.Kind() == reflect.Pointer || as.Kind() == reflect.Slice {
		as = as.Elem()
	}
	switch {
	case as.Kind() != reflect.Struct:
	case node.Kind == yaml.MappingNode:
		spellKeys(node, as)
	case node.Kind == yaml.DocumentNode, node.Kind == yaml.SequenceNode:
		for _, child := range node.Content {
			spell(child, as)
		}
	}
}

func spellKeys(mapping *yaml.Node, as reflect.Type) {
	given := map[string]bool{}
	for i := 0; i < len(mapping.Content); i += 2 {
		given[mapping.Content[i].Value] = true
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		if key.Value == "<<" {
			spell(value, as)
			continue
		}
		for field := range as.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			if key.Kind != yaml.ScalarNode || !strings.EqualFold(key.Value, name) {
				continue
			}
			if key.Value != name && !given[name] { // the exact spelling goes before any other
				key.Value, given[name] = name, true
			}
			if key.Value == name {
				spell(value, field.Type)
			}
			break
		}
	}
}
