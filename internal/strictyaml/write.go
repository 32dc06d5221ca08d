package strictyaml

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Node converts plain data, such as Value returns, to a node for Marshal.
func Node(value any) (*yaml.Node, error) {
	var n yaml.Node
	if err := n.Encode(quoted(value)); err != nil { // go-yaml writes the value as text and reads that
		return nil, err
	}
	asBlocks(&n)
	return &n, nil
}

// quoted replaces texts that go-yaml may write as blocks that it cannot read.
func quoted(value any) any {
	switch value := value.(type) {
	case string:
		if strings.Contains(value, "\n") && strings.ContainsAny(value[:1], " \t\n") {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Style: yaml.DoubleQuotedStyle}
		}
	case []any:
		list := make([]any, len(value))
		for i, one := range value {
			list[i] = quoted(one)
		}
		return list
	case map[string]any:
		mapping := make(map[string]any, len(value))
		for key, one := range value {
			mapping[key] = quoted(one)
		}
		return mapping
	}
	return value
}

// asBlocks removes the quotes: people read blocks more easily.
func asBlocks(n *yaml.Node) {
	if n.Style == yaml.DoubleQuotedStyle && strings.Contains(n.Value, "\n") {
		n.Style = yaml.LiteralStyle
	}
	for _, child := range n.Content {
		asBlocks(child)
	}
}

// Marshal writes documents, each indented by two spaces, and changes styles of their nodes as Readable does. Without a
// document, the text is empty.
func Marshal(documents ...*yaml.Node) ([]byte, error) {
	if len(documents) == 0 { // closing an unused encoder is an error
		return nil, nil
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2) // with another width, go-yaml indents blocks in lists by less than it says
	for _, n := range documents {
		Readable(n)
		if err := encoder.Encode(n); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), encoder.Close()
}

// Readable quotes texts of several lines that begin with a tab: go-yaml would write them as blocks, which it cannot read.
func Readable(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "\n") && strings.HasPrefix(strings.TrimLeft(n.Value, " \n"), "\t") {
		n.Style = n.Style&yaml.TaggedStyle | yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		Readable(child)
	}
}
