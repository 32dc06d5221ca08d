package engine

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/strictyaml"
)

// document is a document of a chart as Helm sorts it.
type document struct {
	file, text string
	hooks      []string
}

// entry is an object, or an item of a list.
type entry struct {
	document
	node *yaml.Node
}

// read parses documents and splits lists. As with Helm, an item belongs to the hooks of its list, whatever its own annotations
// say.
func (n *namer) read(documents []document) (entries []entry, err error) {
	for _, d := range documents {
		nodes, err := parse(d.text)
		var objects []*yaml.Node
		for _, node := range nodes {
			var found []*yaml.Node
			if found, err = items(node); err != nil {
				break
			}
			objects = append(objects, found...)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.file, err)
		}
		for _, node := range objects {
			if text(node, "kind") == "CustomResourceDefinition" {
				n.learn(node)
			}
			entries = append(entries, entry{d, node})
		}
	}
	return entries, nil
}

// parse reads the documents of a text that are not empty.
func parse(text string) (nodes []*yaml.Node, err error) {
	for documents := yaml.NewDecoder(strings.NewReader(text)); ; {
		var document yaml.Node
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nodes, nil
		}
		if err == nil {
			err = strictyaml.Expand(&document) // an item of a list leaves the anchors of others behind
		}
		if err == nil { // finds duplicate keys
			var whole any
			err = document.Decode(&whole)
		}
		if err != nil {
			return nodes, err
		}
		if len(document.Content) == 1 && document.Content[0].Kind == yaml.MappingNode && len(document.Content[0].Content) > 0 {
			nodes = append(nodes, document.Content[0])
		}
	}
}

// items returns the items of a list, and those of lists in it, or the object itself. As for the API's own clients, an object
// with items is a list. An item of a list such as RoleList may leave out its kind.
func items(node *yaml.Node) ([]*yaml.Node, error) {
	list, kind := strictyaml.Child(node, "items"), text(node, "kind")
	if list == nil || list.Kind != yaml.SequenceNode {
		if strings.HasSuffix(kind, "List") && list != nil && list.Tag == "!!null" { // a loop without a turn
			return nil, nil
		}
		return []*yaml.Node{node}, nil
	}
	var all []*yaml.Node
	for i, item := range list.Content {
		if item.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("item %d of a %s is not an object", i+1, kind)
		}
		if of, typed := strings.CutSuffix(kind, "List"); typed && of != "" && text(item, "kind") == "" {
			item.Content = append([]*yaml.Node{scalar("apiVersion"), scalar(text(node, "apiVersion")), scalar("kind"), scalar(of)}, without(item, "apiVersion", "kind")...)
		}
		found, err := items(item)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// without returns the content of a mapping without some keys.
func without(mapping *yaml.Node, keys ...string) (content []*yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if !slices.Contains(keys, mapping.Content[i].Value) {
			content = append(content, mapping.Content[i:i+2]...)
		}
	}
	return content
}
