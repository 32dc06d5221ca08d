package lock

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/strictyaml"
)

// maxSize is the largest lock, in bytes. A lock of thousands of packages has a few hundred thousand.
const maxSize = 16 << 20

// Parse reads a lock. name stands for it in positions. Mistakes are a diag.Errors with all of them.
func Parse(name string, r io.Reader) (Lock, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return Lock{}, fmt.Errorf("read %s: %w", name, err)
	}
	p := &parser{Reader: strictyaml.Reader{Name: name}, seen: make(map[string]bool)}
	if len(data) > maxSize {
		p.Errorf(diag.Pos{File: name}, "", "larger than %d bytes", maxSize)
		return Lock{}, p.Err()
	}
	var l Lock
	if root := p.Mapping(data); root != nil {
		l = p.lock(root)
	}
	if err := p.Err(); err != nil {
		return Lock{}, err
	}
	l.sort()
	return l, nil
}

type parser struct {
	strictyaml.Reader
	seen map[string]bool // the records read so far
}

func (p *parser) lock(n *yaml.Node) Lock {
	var l Lock
	var names []string
	for _, s := range sections() {
		names = append(names, s.name)
	}
	f := p.record(n, "the lock", []string{"format"}, names...)
	if format := f.text("format"); f.has("format") && format != Format {
		p.Errorf(p.Pos(f.fields["format"]), "lock the add-on again with sealift lock, or use the sealift that wrote it",
			"format %q is not %s", format, Format)
		return l
	}
	for _, s := range sections() {
		for _, n := range f.list(s.name) {
			s.read(p, n, &l)
		}
	}
	return l
}

// record is a mapping that is being read.
type record struct {
	p      *parser
	what   string
	node   *yaml.Node
	fields map[string]*yaml.Node
}

// record checks that n is a mapping with all needed fields, and that it has no others except the optional ones.
func (p *parser) record(n *yaml.Node, what string, needed []string, optional ...string) record {
	r := record{p: p, what: what, node: n}
	if !p.IsMapping(n, what) {
		return r
	}
	r.fields = p.Fields(n, what, append(needed, optional...)...)
	for _, key := range needed {
		if !r.has(key) {
			p.Errorf(p.Pos(n), "lock the add-on again with sealift lock", "%s has no %s", what, key)
		}
	}
	return r
}

func (r record) has(key string) bool { return r.fields[key] != nil }

// text returns a field that must not be empty.
func (r record) text(key string) string {
	n := r.fields[key]
	if n == nil {
		return ""
	}
	s := r.p.Text(n, key+" of "+r.what)
	if s == "" {
		r.p.Errorf(r.p.Pos(n), "", "%s of %s is empty", key, r.what)
	}
	return s
}

func (r record) size() int64 {
	const key = "size"
	s := r.text(key)
	size, err := strconv.ParseInt(s, 10, 64)
	if s != "" && (err != nil || size < 0 || strconv.FormatInt(size, 10) != s) {
		r.p.Errorf(r.p.Pos(r.fields[key]), "", "%s of %s is %q, not a number of bytes", key, r.what, s)
		return 0
	}
	return size
}

func (r record) list(key string) []*yaml.Node {
	n := r.fields[key]
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.p.Errorf(r.p.Pos(n), "", "%s of %s must be a list", key, r.what)
		return nil
	}
	return n.Content
}

func (r record) sha256(key string) string {
	s := r.text(key)
	if s != "" && !isSHA256(s) {
		r.p.Errorf(r.p.Pos(r.fields[key]), "", "%s of %s is %q, not 64 hexadecimal digits", key, r.what, s)
	}
	return s
}

// blob reads what identifies the content of a file.
func (r record) blob() bundle.Blob { return bundle.Blob{SHA256: r.sha256("sha256"), Size: r.size()} }

func (r record) digest(key string) string {
	if n := r.fields[key]; n != nil {
		return r.p.checkDigest(n, key+" of "+r.what)
	}
	return ""
}

func (p *parser) checkDigest(n *yaml.Node, what string) string {
	s := p.Text(n, what)
	if hex, ok := strings.CutPrefix(s, "sha256:"); !ok || !isSHA256(hex) {
		p.Errorf(p.Pos(n), "", "%s is %q, not sha256: and 64 hexadecimal digits", what, s)
	}
	return s
}

func isSHA256(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

// once refuses a second record with the same values in the given fields.
func (r record) once(keys ...string) {
	name := r.what
	for _, key := range keys {
		n := r.fields[key]
		if n == nil || n.Kind != yaml.ScalarNode {
			return
		}
		name += " " + n.Value
	}
	if r.p.seen[name] {
		r.p.Errorf(r.p.Pos(r.node), "keep one of them, or lock the add-on again with sealift lock", "%s is listed twice", name)
	}
	r.p.seen[name] = true
}
