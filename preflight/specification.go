package preflight

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/template"
	"text/template/parse"
	"unicode/utf8"

	"github.com/Masterminds/sprig/v3"
	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/spec"
)

// HostPreflight and SupportBundle are the kinds of Troubleshoot's specifications that an add-on may have.
const (
	HostPreflight = "HostPreflight"
	SupportBundle = "SupportBundle"
)

// Specification is one of Troubleshoot's, as an add-on or an Installer has it: a text template with the delimiters {{kurl
// and }} that becomes YAML (kURL §8.2).
type Specification struct {
	Name string // whose it is; its checks are called after it
	Kind string
	Text []byte
	// Values says that only values in the YAML are templates, one by one. Its structure is then what everybody reads in it: no
	// template adds or renames a field.
	Values bool
}

// Node is what a template may ask about the host (kURL §8.2), besides the Installer.
type Node struct {
	Primary        bool     `json:"primary"` // it has, or will have, a control plane
	Join           bool     `json:"join"`    // it joins a cluster that others made
	Upgrade        bool     `json:"upgrade"` // it runs an older version
	PrimaryHosts   []string `json:"primaryHosts,omitempty"`
	SecondaryHosts []string `json:"secondaryHosts,omitempty"`
}

// maxRendered bounds what a template becomes, in bytes.
const maxRendered = 4 << 20

// Render fills in the template and returns YAML documents. A value of the Installer is text wherever it stands: it cannot
// add a collector, close a quotation or become a comment.
func (s Specification) Render(n Node, i *spec.Installer) ([]byte, error) {
	text, values := s.Text, values(nil)
	if !s.Values {
		var err error
		if text, values, err = execute(s.Name, s.Text, templateData(n, i)); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", s.Kind, s.Name, err)
		}
		if len(bytes.TrimSpace(text)) == 0 { // which YAML has no word for
			return nil, nil
		}
	}
	room := maxRendered
	var out bytes.Buffer
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	encoder := yaml.NewEncoder(&out)
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", s.Kind, s.Name, err)
		}
		if len(document.Content) == 0 || document.Content[0].ShortTag() == "!!null" {
			continue
		}
		if s.Values {
			if err := s.fillValues(&document, templateData(n, i), &room, 0); err != nil {
				return nil, fmt.Errorf("%s of %s: %w", s.Kind, s.Name, err)
			}
		}
		values.fill(&document, 0)
		if err := s.head(document.Content[0]); err != nil {
			return nil, err
		}
		if err := encoder.Encode(&document); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", s.Kind, s.Name, err)
		}
	}
	if out.Len() == 0 { // closing what was never written to is an error
		return nil, nil
	}
	if err := encoder.Close(); err != nil {
		return nil, fmt.Errorf("%s of %s: %w", s.Kind, s.Name, err)
	}
	return out.Bytes(), nil
}

// fillValues runs the templates in the values of a document. What they print is text. room is how much that may be, in bytes.
func (s Specification) fillValues(n *yaml.Node, data map[string]any, room *int, depth int) error {
	if depth > maxDepth {
		return errors.New("is nested too deeply")
	}
	for at, child := range n.Content {
		isKey := n.Kind == yaml.MappingNode && at%2 == 0
		if child.Kind == yaml.ScalarNode && !isKey && strings.Contains(child.Value, leftDelimiter) {
			text, written, err := execute(s.Name, []byte(child.Value), data)
			if err != nil {
				return err
			}
			child.Value, child.Tag, child.Style = written.in(string(text)), "!!str", 0
			if *room -= len(child.Value); *room < 0 {
				return fmt.Errorf("larger than %d bytes", maxRendered)
			}
		}
		if err := s.fillValues(child, data, room, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// head makes sure of what a document says of itself: its kind, and whose it is.
func (s Specification) head(root *yaml.Node) error {
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s of %s: a specification is a mapping", s.Kind, s.Name)
	}
	if field(root, "apiVersion") == nil {
		put(root, "apiVersion", scalar("troubleshoot.sh/v1beta2"))
	}
	if kind := field(root, "kind"); kind == nil {
		put(root, "kind", scalar(s.Kind))
	} else if kind.Value != s.Kind {
		return fmt.Errorf("%s of %s: is a %s", s.Kind, s.Name, kind.Value)
	}
	put(root, "metadata", &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar("name"), scalar(s.Name)}})
	return nil
}

func scalar(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

func field(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func put(mapping *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, scalar(key), value)
}

// values are the texts that a template has written, in order. In what it has become, each is a word that means nothing to
// YAML, so that the text cannot; it is put back where the word stands when the YAML is read.
type values []string

const valueWord = "sealift-value-"

func word(number int) string { return fmt.Sprintf("%s%d-", valueWord, number) }

func (v *values) write(value any) any {
	text, ok := value.(string)
	if !ok {
		return value
	}
	*v = append(*v, text)
	return word(len(*v) - 1)
}

// maxDepth bounds how deep YAML may be nested; the specifications have about ten levels.
const maxDepth = 200

func (v values) fill(n *yaml.Node, depth int) {
	if depth > maxDepth {
		return
	}
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, valueWord) {
		v.fillScalar(n)
	}
	for _, child := range n.Content {
		v.fill(child, depth+1)
	}
}

func (v values) fillScalar(n *yaml.Node) {
	for i := len(v) - 1; i >= 0; i-- {
		if n.Style == 0 && n.Value == word(i) { // nothing but the value: it may be a number or have quotes of its own
			n.Tag, n.Value = "!!str", v[i]
			var alone yaml.Node
			if err := yaml.Unmarshal([]byte(v[i]), &alone); err == nil && len(alone.Content) == 1 &&
				alone.Content[0].Kind == yaml.ScalarNode && alone.Content[0].Anchor == "" && alone.Content[0].Style != yaml.TaggedStyle {
				n.Tag, n.Value, n.Style = alone.Content[0].Tag, alone.Content[0].Value, alone.Content[0].Style
			}
			return
		}
	}
	n.Value, n.Tag = v.in(n.Value), "!!str"
}

// in puts the texts back where their words stand.
func (v values) in(text string) string {
	var pairs []string
	for i := range v {
		pairs = append(pairs, word(i), v[i])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// leftDelimiter begins an action of a template.
const leftDelimiter = "{{kurl"

// execute runs a template.
func execute(name string, text []byte, data map[string]any) ([]byte, values, error) {
	var written values
	functions := sprig.TxtFuncMap()
	for _, name := range []string{"env", "expandenv", "getHostByName"} { // the environment and the network are not its business
		delete(functions, name)
	}
	const write = "sealiftWrite"
	functions[write] = written.write
	t, err := template.New(name).Delims(leftDelimiter, "}}").Funcs(functions).Option("missingkey=zero").Parse(string(text))
	if err != nil {
		return nil, nil, err
	}
	for _, one := range t.Templates() {
		if one.Tree != nil {
			writeThrough(one.Root, write)
		}
	}
	out := limitedBuffer{limit: maxRendered}
	if err := t.Execute(&out, data); err != nil {
		return nil, nil, err
	}
	if !utf8.Valid(out.buffer.Bytes()) {
		return nil, nil, errors.New("is no text")
	}
	return out.buffer.Bytes(), written, nil
}

// writeThrough lets every action that prints do so through a function, as html/template does.
func writeThrough(n parse.Node, function string) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			writeThrough(child, function)
		}
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 {
			n.Pipe.Cmds = append(n.Pipe.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos,
				Args: []parse.Node{parse.NewIdentifier(function).SetPos(n.Pos)}})
		}
	case *parse.IfNode:
		writeThrough(n.List, function)
		writeThrough(n.ElseList, function)
	case *parse.RangeNode:
		writeThrough(n.List, function)
		writeThrough(n.ElseList, function)
	case *parse.WithNode:
		writeThrough(n.List, function)
		writeThrough(n.ElseList, function)
	}
}
