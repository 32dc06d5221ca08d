package lint

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/strictyaml"
)

// apiVersions are the API versions of Troubleshoot's kinds.
func apiVersions() []string {
	return []string{"troubleshoot.sh/v1beta2", "troubleshoot.sh/v1beta3", "troubleshoot.replicated.com/v1beta1"}
}

func (c *checker) preflights() error {
	return c.spec(preflightFile, "HostPreflight", "what must a host have, or have free, for this add-on?",
		[]string{"collectors", "remoteCollectors"}, []string{"analyzers"})
}

func (c *checker) support() error {
	return c.spec(supportFile, "SupportBundle", "which logs and states tell why this add-on does not work?",
		[]string{"collectors", "hostCollectors"}, []string{"analyzers", "hostAnalyzers"})
}

// spec checks the structure of a Troubleshoot specification: it collects something, and every item has one kind. It does
// not check the kinds and their fields, which only Troubleshoot knows.
func (c *checker) spec(file, kind, hint string, collect, analyze []string) error {
	data, err := os.ReadFile(c.path(file))
	if errors.Is(err, fs.ErrNotExist) {
		if c.declared {
			c.errorf(c.pos(file), hint, "the add-on has no %s", file)
		}
		return nil
	}
	if err != nil {
		return err
	}
	r := strictyaml.Reader{Name: c.path(file)}
	if len(data) > maxFileSize {
		r.Errorf(c.pos(file), "", "larger than %d bytes", maxFileSize)
	} else if root := r.Mapping(withoutActions(data)); root != nil {
		if wrapped := wrappedSpec(root); wrapped != nil {
			inner := strictyaml.Reader{Name: c.path(file)}
			if root = inner.Mapping([]byte(wrapped.Value)); root != nil {
				checkSpec(&inner, root, kind, collect, analyze)
			}
			for _, f := range inner.Findings() {
				if f.Pos.Line > 0 {
					f.Pos = inBlock(f.Pos, wrapped, data)
				}
				r.Add(f)
			}
		} else {
			checkSpec(&r, root, kind, collect, analyze)
		}
	}
	c.take(&r.List)
	return nil
}

// wrappedSpec returns the specification inside a Secret or ConfigMap, where Troubleshoot looks for cluster specifications,
// or nil.
func wrappedSpec(root *yaml.Node) *yaml.Node {
	kind := strictyaml.Child(root, "kind")
	if kind == nil || kind.Value != "Secret" && kind.Value != "ConfigMap" {
		return nil
	}
	for _, key := range []string{"stringData", "data"} {
		data := strictyaml.Child(root, key)
		if data == nil || data.Kind != yaml.MappingNode {
			continue
		}
		for i := 1; i < len(data.Content); i += 2 {
			if item := data.Content[i]; item.Kind == yaml.ScalarNode && strings.Contains(item.Value, "troubleshoot") {
				return item
			}
		}
	}
	return nil
}

func checkSpec(r *strictyaml.Reader, root *yaml.Node, kind string, collect, analyze []string) {
	if n := strictyaml.Child(root, "apiVersion"); n == nil || !slices.Contains(apiVersions(), n.Value) {
		r.Errorf(r.Pos(orNode(n, root)), "write "+apiVersions()[0], "apiVersion is not one of Troubleshoot's")
	}
	if n := strictyaml.Child(root, "kind"); n == nil || n.Value != kind {
		r.Errorf(r.Pos(orNode(n, root)), "write "+kind, "kind is not %s", kind)
	}
	spec := strictyaml.Child(root, "spec")
	if spec == nil || spec.Kind != yaml.MappingNode {
		r.Errorf(r.Pos(orNode(spec, root)), "", "spec is missing, or no mapping")
		return
	}
	collected := 0
	for i, key := range append(slices.Clone(collect), analyze...) {
		items := strictyaml.Child(spec, key)
		if items == nil {
			continue
		}
		if items.Kind != yaml.SequenceNode {
			r.Errorf(r.Pos(items), "", "%s is not a list", key)
			continue
		}
		if i < len(collect) {
			collected += len(items.Content)
		}
		for _, item := range items.Content {
			if item.Kind != yaml.MappingNode || len(item.Content) != 2 || item.Content[1].Kind != yaml.MappingNode {
				r.Errorf(r.Pos(item), "such as diskUsage: {...}", "an item of %s is one kind with its settings", key)
			}
		}
	}
	if collected == 0 {
		r.Errorf(r.Pos(spec), "", "nothing is collected: %s", strings.Join(collect, " and ")+" are empty")
	}
}

// inBlock converts a position in a block scalar's text to a position in the file. The text begins on the line after its
// key.
func inBlock(pos diag.Pos, block *yaml.Node, data []byte) diag.Pos {
	inner := strings.Split(block.Value, "\n")
	outer := strings.Split(string(data), "\n")
	if line := pos.Line; line <= len(inner) && line+block.Line <= len(outer) {
		pos.Col += len(outer[line+block.Line-1]) - len(inner[line-1])
	}
	pos.Line += block.Line
	return pos
}

func orNode(n, otherwise *yaml.Node) *yaml.Node {
	if n != nil {
		return n
	}
	return otherwise
}

var (
	// A specification is a text template with the delimiters {{kurl and }} before it is YAML (kURL §8.2).
	actionLine = regexp.MustCompile(`^\s*\{\{kurl.*\}\}\s*$`)
	action     = regexp.MustCompile(`\{\{kurl[^}]*\}\}`)
)

// withoutActions replaces template actions, so that the text can be parsed as YAML: a line with nothing else becomes empty,
// and any other action becomes a word of the same length, so that positions stay correct.
func withoutActions(data []byte) []byte {
	lines := bytes.Split(data, []byte("\n"))
	for i, line := range lines {
		if actionLine.Match(line) {
			lines[i] = nil
			continue
		}
		lines[i] = action.ReplaceAllFunc(line, func(found []byte) []byte { return bytes.Repeat([]byte("x"), len(found)) })
	}
	return bytes.Join(lines, []byte("\n"))
}

// firstDifference returns the number of the first line in which two texts differ, or 0.
func firstDifference(a, b string) int {
	if a == b {
		return 0
	}
	linesA, linesB := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(linesA), len(linesB)) {
		if linesA[i] != linesB[i] {
			return i + 1
		}
	}
	return min(len(linesA), len(linesB))
}
