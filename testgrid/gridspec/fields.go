package gridspec

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/strictyaml"
)

// fields reads values of one mapping by key. A key that the mapping lacks leaves its target unchanged.
type fields struct {
	p     *parser
	nodes map[string]*yaml.Node
}

// or returns n, or the fallback if n is nil.
func or(n, fallback *yaml.Node) *yaml.Node {
	if n == nil {
		return fallback
	}
	return n
}

func (f fields) text(key string, to *string) {
	if n := f.nodes[key]; n != nil {
		*to = f.p.Text(n, key)
	}
}

func (f fields) boolean(key string, to *bool) {
	n := f.nodes[key]
	if n == nil {
		return
	}
	b, ok := strictyaml.Value(n).(bool)
	if !ok {
		f.p.Errorf(f.p.Pos(n), "write true or false", "%s must be true or false", key)
	}
	*to = b
}

// number reads an integer between two bounds. Quotes do not matter, as kURL's files have some.
func (f fields) number(key string, to *int, least, most int) {
	n := f.nodes[key]
	if n == nil {
		return
	}
	i, err := strconv.Atoi(f.p.Text(n, key))
	if n.Kind != yaml.ScalarNode {
		return // reported
	}
	if err != nil || i < least || i > most {
		f.p.Errorf(f.p.Pos(n), "", "%s must be a number from %d to %d, not %q", key, least, most, n.Value)
		return
	}
	*to = i
}

var sizePattern = regexp.MustCompile(`^([0-9]{1,15})(Ki|Mi|Gi|Ti)?$`)

// size reads a number of bytes with a unit, such as 16Gi.
func (f fields) size(key string, to *int64) {
	n := f.nodes[key]
	if n == nil {
		return
	}
	m := sizePattern.FindStringSubmatch(f.p.Text(n, key))
	if n.Kind != yaml.ScalarNode {
		return // reported
	}
	if m == nil {
		f.p.Errorf(f.p.Pos(n), "such as 16Gi", "%s must be a size in bytes, not %q", key, n.Value)
		return
	}
	i, err := strconv.ParseInt(m[1], 10, 64)
	shift := 10 * (1 + slices.Index([]string{"Ki", "Mi", "Gi", "Ti"}, m[2]))
	if err != nil || i > math.MaxInt64>>shift {
		f.p.Errorf(f.p.Pos(n), "such as 16Gi", "%s is larger than any machine: %q", key, n.Value)
		return
	}
	*to = i << shift
}

// maxDuration is longer than any part of a test.
const maxDuration = 48 * time.Hour

func (f fields) duration(key string, to *time.Duration) {
	f.signedDuration(key, to)
	if n := f.nodes[key]; n != nil && *to < 0 {
		f.p.Errorf(f.p.Pos(n), "such as 30s", "%s must not be negative", key)
	}
}

func (f fields) signedDuration(key string, to *time.Duration) {
	n := f.nodes[key]
	if n == nil {
		return
	}
	d, err := time.ParseDuration(f.p.Text(n, key))
	if n.Kind != yaml.ScalarNode {
		return // reported
	}
	if err != nil || d > maxDuration || d < -maxDuration*365 {
		f.p.Errorf(f.p.Pos(n), "such as 300ms, 30s or 5m", "%s must be a duration, not %q", key, n.Value)
		return
	}
	*to = d
}

func (f fields) oneOf(key string, to *string, allowed ...string) {
	n := f.nodes[key]
	if n == nil {
		return
	}
	*to = f.p.Text(n, key)
	if n.Kind == yaml.ScalarNode && !slices.Contains(allowed, *to) {
		f.p.Errorf(f.p.Pos(n), "write "+strings.Join(allowed, " or "), "unknown %s %q", key, *to)
	}
}

// list returns the elements of a list. A missing list and null have none.
func (f fields) list(key string) []*yaml.Node {
	n := f.nodes[key]
	if n == nil || n.ShortTag() == "!!null" {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		f.p.Errorf(f.p.Pos(n), "begin each entry with a dash", "%s must be a list", key)
		return nil
	}
	return n.Content
}

// filled reports an existing empty text: nothing would be checked.
func (f fields) filled(key, text, hint string) {
	if n := f.nodes[key]; n != nil && n.Kind == yaml.ScalarNode && strings.TrimSpace(text) == "" {
		f.p.Errorf(f.p.Pos(n), hint, "%s is empty", key)
	}
}

// required reports keys that a mapping lacks.
func (f fields) required(n *yaml.Node, what string, keys ...string) {
	for _, key := range keys {
		if f.nodes[key] == nil {
			f.p.Errorf(f.p.Pos(n), "", "%s has no %s", what, key)
		}
	}
}
