// Package strictyaml reads YAML that people write. It refuses the parts of YAML that such files do not need and that can
// surprise, and it knows the position of everything that it reads.
//
// It refuses a second document (empty ones are skipped), keys that are repeated or not strings, aliases that expand to more than Expand
// copies, custom tags, and deep nesting. The caller decides which keys its format has.
//
// What it writes can be read again.
package strictyaml

import (
	"bytes"
	"errors"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/regularfile"
)

// MaxDepth is the deepest nesting of mappings and lists. No format here comes near it.
const MaxDepth = 64

// Reader reads one document and collects its mistakes. Set Name to the file name that positions show.
type Reader struct {
	diag.List
	Name string
}

// Pos returns the position of a node.
func (r *Reader) Pos(n *yaml.Node) diag.Pos {
	return diag.Pos{File: r.Name, Line: n.Line, Col: n.Column}
}

// Mapping returns the mapping in data after checking all of it. If anything is wrong, it reports at least one error and
// returns nil.
func (r *Reader) Mapping(data []byte) *yaml.Node {
	root := r.document(data)
	if root != nil && root.Kind != yaml.MappingNode {
		r.Errorf(r.Pos(root), "", "the document is not a mapping")
	}
	return r.checked(root)
}

// Any is Mapping for a document of any kind.
func (r *Reader) Any(data []byte) *yaml.Node { return r.checked(r.document(data)) }

func (r *Reader) checked(root *yaml.Node) *yaml.Node {
	if root != nil && r.Err() == nil {
		if wrong, ok := errors.AsType[*AliasError](Expand(root)); ok {
			r.Errorf(r.Pos(wrong.At), wrong.Help, "%s", wrong.Text)
		} else {
			r.strict(root, 0)
		}
	}
	if r.Err() != nil {
		return nil
	}
	return root
}

var yamlErrorLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

// document returns the one value in data, or reports why there is none.
func (r *Reader) document(data []byte) *yaml.Node {
	root, ok := r.find(data)
	if ok && root == nil {
		r.Errorf(diag.Pos{File: r.Name}, "", "the document is empty")
	}
	return root
}

// IsEmpty reports whether data has no document, but at most comments and lines of ---.
func IsEmpty(data []byte) bool {
	root, ok := new(Reader).find(data)
	return ok && root == nil
}

// find returns the one value in data, or nil if there is none. ok is false if it reported a mistake.
func (r *Reader) find(data []byte) (only *yaml.Node, ok bool) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var next yaml.Node
		switch err := decoder.Decode(&next); {
		case errors.Is(err, io.EOF):
			return only, true
		case err != nil:
			r.syntax(err)
			return nil, false
		case isComment(next.Content[0]):
		case only != nil:
			r.Errorf(r.Pos(&next), "keep one document per file", "a second document")
			return nil, false
		default:
			only = next.Content[0]
		}
	}
}

// isComment reports whether a document has at most comments, as above the first --- of many files and below the last.
func isComment(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style == 0 && n.Anchor == "" && n.ShortTag() == "!!null"
}

// syntax reports an error of the YAML parser, which has the line inside its text.
func (r *Reader) syntax(err error) {
	pos, message := diag.Pos{File: r.Name}, err.Error()
	if m := yamlErrorLine.FindStringSubmatch(message); m != nil {
		pos.Line, _ = strconv.Atoi(m[1])
		pos.Col, message = 1, m[2]
	}
	r.Errorf(pos, "", "not YAML: %s", message)
}

// strict reports everything in n that the package refuses.
func (r *Reader) strict(n *yaml.Node, depth int) {
	switch {
	case r.Full():
		return
	case depth > MaxDepth:
		r.Errorf(r.Pos(n), "", "nested more than %d deep", MaxDepth)
		return
	case !coreTag(n.ShortTag()):
		r.Errorf(r.Pos(n), "remove it", "unknown tag %q", n.ShortTag())
		return
	}
	if n.Kind != yaml.MappingNode {
		for _, child := range n.Content {
			r.strict(child, depth+1)
		}
		return
	}
	first := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch earlier := first[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			r.Errorf(r.Pos(key), "quote it", "a key must be a string")
		case earlier != nil:
			r.Errorf(r.Pos(key), "keep one of them", "key %q is already on line %d", key.Value, earlier.Line)
		default:
			first[key.Value] = key
		}
		r.strict(n.Content[i+1], depth+1)
	}
}

func coreTag(tag string) bool {
	switch tag {
	case "!!map", "!!seq", "!!str", "!!bool", "!!int", "!!float", "!!null", "!!timestamp":
		return true
	}
	return false
}

// Fields returns the values of a mapping by key and reports unknown keys. what names the mapping in the report.
func (r *Reader) Fields(n *yaml.Node, what string, known ...string) map[string]*yaml.Node {
	values := map[string]*yaml.Node{}
	for at := 0; at+1 < len(n.Content); at += 2 {
		key, value := n.Content[at], n.Content[at+1]
		if r.Full() {
			break
		}
		if !slices.Contains(known, key.Value) {
			r.Errorf(r.Pos(key), diag.DidYouMean(key.Value, known, "known: "), "unknown key %q in %s", key.Value, what)
			continue
		}
		values[key.Value] = value
	}
	return values
}

// IsMapping reports whether n is a mapping. If it is not, it adds an error that names what.
func (r *Reader) IsMapping(n *yaml.Node, what string) bool {
	if n.Kind == yaml.MappingNode {
		return true
	}
	r.Errorf(r.Pos(n), "", "%s must be a mapping", what)
	return false
}

// Text returns a scalar as written, so that the version 1.20 does not become the number 1.2. null is "". If n is not a
// scalar, it adds an error that names what.
func (r *Reader) Text(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode {
		r.Errorf(r.Pos(n), "", "%s must be a string", what)
		return ""
	}
	if n.ShortTag() == "!!null" {
		return ""
	}
	return n.Value
}

// Items returns the elements of a list, which may be absent: n is then nil.
func (r *Reader) Items(n *yaml.Node, what string) []*yaml.Node {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.Errorf(r.Pos(n), "", "%s must be a list", what)
		return nil
	}
	return n.Content
}

// MaxFile is the largest file that Content reads, in bytes. The trusted root of the public sigstore has 7,000.
const MaxFile = 1 << 20

// Content returns a node's text if it begins in a certain way. Otherwise the text names a file, beside the document if the name is not
// absolute: Content returns what is in it, its name as written, and its path.
func (r *Reader) Content(n *yaml.Node, what, begins string) (text []byte, name, path string) {
	value := r.Text(n, what)
	if strings.HasPrefix(strings.TrimSpace(value), begins) || value == "" {
		return []byte(value), "", ""
	}
	path = value
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(r.Name), path)
	}
	text, err := regularfile.ReadAtMost(path, MaxFile)
	if err != nil {
		r.Errorf(r.Pos(n), "", "%s: %v", what, err)
		return nil, value, ""
	}
	return text, value, path
}

// Child returns the value of a key in a mapping; nil if the key is missing, or if n is not a mapping.
func Child(n *yaml.Node, key string) *yaml.Node {
	for at := 0; n.Kind == yaml.MappingNode && at+1 < len(n.Content); at += 2 {
		if n.Content[at].Value == key {
			return n.Content[at+1]
		}
	}
	return nil
}

// Value converts a checked node to plain data: string, bool, int64, float64, []any, map[string]any, or nil for null. Dates
// stay text, and so do numbers that these types cannot hold.
func Value(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = Value(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		s := make([]any, 0, len(n.Content))
		for _, child := range n.Content {
			s = append(s, Value(child))
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
		if !strings.ContainsAny(n.Value, ".eE") {
			break // an integer of more than 64 bits
		}
		var f float64
		if n.Decode(&f) != nil || math.IsInf(f, 0) || math.IsNaN(f) { // JSON could not write them
			break
		}
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f) // as in JSON: 1.0 and 1e0 are 1
		}
		return f
	}
	return n.Value
}
