package preflight

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/Masterminds/sprig/v3"
	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/strictyaml"
	"github.com/sealift/sealift/preflight/template"
	"github.com/sealift/sealift/spec"
)

// HostPreflight and SupportBundle are the kinds of Troubleshoot specification that an add-on may have.
const (
	HostPreflight = "HostPreflight"
	SupportBundle = "SupportBundle"
)

// Specification is a Troubleshoot specification of an add-on or an Installer: a text template with the delimiters {{kurl
// and }} that renders YAML (kURL §8.2).
type Specification struct {
	Name string // the owner, which names the checks
	Kind string
	Text []byte
	// Values means that only single values in the YAML are templates. The structure is then fixed: no template can add or rename a
	// field.
	Values bool
	// Others are more kinds of documents, which are passed on as they are: only sealift-preflight knows what they have.
	Others []string
}

// Node describes the host to templates (kURL §8.2).
type Node struct {
	Primary        bool     `json:"primary"` // it is or becomes a control plane node
	Join           bool     `json:"join"`    // it joins an existing cluster
	Upgrade        bool     `json:"upgrade"` // it runs an older version
	AirGap         bool     `json:"airGap"`  // it reaches nothing outside, whether or not the Installer says so
	PrimaryHosts   []string `json:"primaryHosts,omitempty"`
	SecondaryHosts []string `json:"secondaryHosts,omitempty"`
}

// maxRendered is the largest rendered specification, in bytes.
const maxRendered = 4 << 20

// Render renders the template and returns YAML documents. Values of the Installer are always inserted as text: they cannot
// add a collector, close a quotation or become a comment.
func (s Specification) Render(n Node, i *spec.Installer) ([]byte, error) {
	text, values := s.Text, values(nil)
	if !s.Values {
		var err error
		if text, values, err = execute(s.Name, s.Text, templateData(n, i)); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", s.Kind, s.Name, err)
		}
		if len(bytes.TrimSpace(text)) == 0 { // nothing to parse
			return nil, nil
		}
	}
	room := maxRendered
	var documents []*yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
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
		documents = append(documents, &document)
	}
	out, err := strictyaml.Marshal(documents...)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", s.Kind, s.Name, err)
	}
	return out, nil
}

// fillValues renders the templates in the values of a document. Their output is text. room is the number of bytes that they
// may still print.
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

// head checks the kind of a document and sets its name.
func (s Specification) head(root *yaml.Node) error {
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s of %s: a specification must be a mapping", s.Kind, s.Name)
	}
	if strictyaml.Child(root, "apiVersion") == nil {
		put(root, "apiVersion", scalar("troubleshoot.sh/v1beta2"))
	}
	kind := strictyaml.Child(root, "kind")
	switch {
	case kind == nil:
		put(root, "kind", scalar(s.Kind))
	case slices.Contains(s.Others, kind.Value):
		return nil
	case kind.Value != s.Kind:
		return fmt.Errorf("%s of %s: its kind is %s", s.Kind, s.Name, kind.Value)
	}
	put(root, "metadata", &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar("name"), scalar(s.Name)}})
	return nil
}

func scalar(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
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

// values are the texts that a template has printed, in order. The rendered YAML contains a placeholder word for each, which
// has no meaning in YAML. The texts replace the words after the YAML is parsed, so they cannot change its structure.
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

// maxDepth is the deepest nesting of YAML. Specifications have about ten levels.
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
	for i, v0 := range slices.Backward(v) {
		if n.Style == 0 && n.Value == word(i) { // only the value: it may be a number, or have its own quotes
			n.Tag, n.Value = "!!str", v0
			var alone yaml.Node
			if err := yaml.Unmarshal([]byte(v0), &alone); err == nil && len(alone.Content) == 1 &&
				alone.Content[0].Kind == yaml.ScalarNode && alone.Content[0].Anchor == "" && alone.Content[0].Style != yaml.TaggedStyle {
				n.Tag, n.Value, n.Style = alone.Content[0].Tag, alone.Content[0].Value, alone.Content[0].Style
			}
			return
		}
	}
	n.Value, n.Tag = v.in(n.Value), "!!str"
}

// in replaces the placeholder words in text.
func (v values) in(text string) string {
	var pairs []string
	for i := range v {
		pairs = append(pairs, word(i), v[i])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// leftDelimiter opens a template action.
const leftDelimiter = "{{kurl"

// execute runs a template.
func execute(name string, text []byte, data map[string]any) ([]byte, values, error) {
	var written values
	functions := sprig.TxtFuncMap()
	for _, name := range []string{"env", "expandenv", "getHostByName"} { // templates must not read the environment or the network
		delete(functions, name)
	}
	out := limitedBuffer{limit: maxRendered}
	if err := template.Execute(&out, name, string(text), template.Options{Left: leftDelimiter, Functions: functions, Print: written.write}, data); err != nil {
		return nil, nil, err
	}
	if !utf8.Valid(out.buffer.Bytes()) {
		return nil, nil, errors.New("the output is not valid UTF-8")
	}
	return out.buffer.Bytes(), written, nil
}
