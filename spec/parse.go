package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/diag"
)

// Bounds on what is read: a Kubernetes object is at most 1.5 MiB in etcd, and no option nests deeply.
const (
	MaxSize  = 1 << 20 // bytes
	maxDepth = 64      // of mappings and lists inside each other
)

// Load reads the Installer at path.
func Load(path string) (*Installer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read installer: %w", err)
	}
	defer f.Close()
	return Parse(path, f)
}

// Parse reads an Installer; name stands for the document in positions. Whatever is wrong with the document is a
// diag.Errors with every mistake in it; any other error is one of reading.
func Parse(name string, r io.Reader) (*Installer, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read installer %s: %w", name, err)
	}
	p := parser{name: name}
	if len(data) > MaxSize {
		p.Errorf(diag.Pos{File: name}, "", "larger than %d bytes", MaxSize)
		return nil, p.Err()
	}
	root := p.document(data)
	if root != nil {
		p.strict(root, 0)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	installer := p.installer(root)
	if err := p.Err(); err != nil {
		return nil, err
	}
	return installer, nil
}

type parser struct {
	diag.List
	name string
}

func (p *parser) at(n *yaml.Node) diag.Pos {
	return diag.Pos{File: p.name, Line: n.Line, Col: n.Column}
}

var yamlErrorLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

// document returns the one mapping that data holds, or reports why there is none.
func (p *parser) document(data []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) {
		p.Errorf(diag.Pos{File: p.name}, "", "the document is empty")
		return nil
	} else if err != nil {
		p.syntax(err)
		return nil
	}
	switch err := decoder.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		p.syntax(err)
		return nil
	default:
		p.Errorf(p.at(&second), "keep one Installer per file", "a second document")
		return nil
	}
	root := first.Content[0]
	if root.Kind != yaml.MappingNode {
		p.Errorf(p.at(root), "", "the document is not a mapping")
		return nil
	}
	return root
}

// syntax reports an error of the YAML reader, which names the line inside its text.
func (p *parser) syntax(err error) {
	pos, message := diag.Pos{File: p.name}, err.Error()
	if m := yamlErrorLine.FindStringSubmatch(message); m != nil {
		pos.Line, _ = strconv.Atoi(m[1])
		pos.Col, message = 1, m[2]
	}
	p.Errorf(pos, "", "not YAML: %s", message)
}

// strict refuses what YAML allows and an Installer has no use for: keys given twice or not strings, anchors and aliases
// (a short document may stand for a huge one), foreign tags, bottomless nesting.
func (p *parser) strict(n *yaml.Node, depth int) {
	switch {
	case depth > maxDepth:
		p.Errorf(p.at(n), "", "nested more than %d deep", maxDepth)
		return
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		p.Errorf(p.at(n), "write the value out", "anchors and aliases are not read")
		return
	case !coreTag(n.ShortTag()):
		p.Errorf(p.at(n), "remove it", "unknown tag %q", n.ShortTag())
		return
	}
	if n.Kind != yaml.MappingNode {
		for _, child := range n.Content {
			p.strict(child, depth+1)
		}
		return
	}
	first := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch earlier := first[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" || key.Anchor != "":
			p.Errorf(p.at(key), "quote it", "a key must be a string")
		case earlier != nil:
			p.Errorf(p.at(key), "keep one of them", "key %q is already on line %d", key.Value, earlier.Line)
		default:
			first[key.Value] = key
		}
		p.strict(n.Content[i+1], depth+1)
	}
}

func coreTag(tag string) bool {
	switch tag {
	case "!!map", "!!seq", "!!str", "!!bool", "!!int", "!!float", "!!null", "!!timestamp":
		return true
	}
	return false
}

// value turns a checked node into the plain data that Options hold. Dates stay the text that they were written as.
func value(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = value(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		s := make([]any, 0, len(n.Content))
		for _, child := range n.Content {
			s = append(s, value(child))
		}
		return s
	}
	return scalar(n)
}

func scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return i
		}
	case "!!float":
		var f float64
		if n.Decode(&f) != nil || math.IsInf(f, 0) || math.IsNaN(f) { // JSON could not write them
			break
		}
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f) // as JSON has it: 1.0 and 1e0 are 1
		}
		return f
	}
	return n.Value
}
