package gridspec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/strictyaml"
)

// MaxSize is the largest file that is read, in bytes. kURL's largest has 74 tests in 80 KiB.
const MaxSize = 4 << 20

// maxMistakes is the most mistakes that are reported.
const maxMistakes = 100

// Values stand for the two placeholders in the spec files of kURL's add-ons. The zero value fits a store that has the package
// under test as its newest.
type Values struct {
	Version string // for __testver__; default latest
	Dist    string // for __testdist__, the URL of a package; "" leaves out the options that have it
}

// Load reads a file of tests or of systems, as Parse does.
func Load(path string, v Values) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read tests: %w", err)
	}
	defer f.Close()
	return Parse(path, f, v)
}

// Parse reads a file of tests or of systems. name stands for it in positions. If the file is invalid, the error is a diag.Errors
// with its mistakes, a hundred at most. Any other error is a read error of r. If every mistake is in a test or a system, the File is
// returned with the error: it has the others, and counts the invalid ones.
func Parse(name string, r io.Reader, v Values) (*File, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read tests of %s: %w", name, err)
	}
	p := &parser{Reader: strictyaml.Reader{Name: name, List: diag.List{Most: maxMistakes}}, values: v}
	if len(data) > MaxSize {
		p.Errorf(diag.Pos{File: name}, "write several files", "larger than %d bytes", MaxSize)
		return nil, p.Err()
	}
	file := &File{Name: name}
	if root := p.Any(data); root != nil {
		p.file(file, root)
	}
	err = p.Err()
	if err != nil && (file.Wrong == 0 || p.Full()) {
		return nil, err
	}
	file.Warnings = slices.DeleteFunc(p.Findings(), func(f diag.Finding) bool { return f.Severity == diag.Error })
	return file, err
}

type parser struct {
	strictyaml.Reader
	values Values
}

func (p *parser) file(file *File, root *yaml.Node) {
	if root.Kind != yaml.SequenceNode || len(root.Content) == 0 {
		p.Errorf(p.Pos(root), "begin with '- name: …'", "the file is not a list of tests")
		return
	}
	ids := map[string]bool{}
	for at, n := range root.Content {
		if p.Full() {
			return
		}
		before := p.errors()
		p.entry(file, at, n, ids)
		if p.errors() > before {
			file.Wrong++
		}
	}
	if len(file.Tests) > 0 && len(file.Systems) > 0 {
		p.Errorf(file.Systems[0].Pos, "write them into a file of their own", "a system in a list of tests")
		file.Wrong = 0 // the mistake is the file's
	}
}

// entry adds a valid test or system to the file. A test that is left out keeps its ID for itself, so that the other tests are called
// the same after it is corrected.
func (p *parser) entry(file *File, at int, n *yaml.Node, ids map[string]bool) {
	before := p.errors()
	if !p.IsMapping(n, "a test") {
		return
	}
	if isSystem(n) {
		if s := p.system(n); p.errors() == before {
			file.Systems = append(file.Systems, s)
		}
		return
	}
	t := p.test(n)
	if t.Name == "" {
		base := filepath.Base(file.Name)
		t.Name = fmt.Sprintf("%s %d", strings.TrimSuffix(base, filepath.Ext(base)), at+1)
	}
	if t.ID = uniqueID(t.Name, ids); p.errors() == before {
		file.Tests = append(file.Tests, t)
	}
}

// errors counts the errors so far.
func (p *parser) errors() int {
	var found diag.Errors
	errors.As(p.Err(), &found)
	return len(found)
}

var notInID = regexp.MustCompile(`[^a-z0-9]+`)

// maxID keeps names of files and hosts that contain an ID within their limits.
const maxID = 60

// uniqueID derives an ID from a name and adds a number if another test has it.
func uniqueID(name string, taken map[string]bool) string {
	base := strings.Trim(notInID.ReplaceAllString(strings.ToLower(name), "-"), "-")
	base = strings.Trim(base[:min(len(base), maxID)], "-")
	if base == "" {
		base = "test"
	}
	id := base
	for n := 2; taken[id]; n++ {
		id = fmt.Sprintf("%s-%d", base, n)
	}
	taken[id] = true
	return id
}

// isSystem distinguishes an entry of a list of systems from a test: it has an ID, which a test does not.
func isSystem(n *yaml.Node) bool {
	return strictyaml.Child(n, "id") != nil && strictyaml.Child(n, "installerSpec") == nil
}

// The placeholders of kURL's add-on tests (kURL §7.1).
const (
	versionPlaceholder = "__testver__"
	distPlaceholder    = "__testdist__"
)

// fill replaces placeholders below n with the values.
func (p *parser) fill(n *yaml.Node) {
	version := p.values.Version
	if version == "" {
		version = "latest"
	}
	if n.Kind == yaml.ScalarNode {
		n.Value = strings.ReplaceAll(n.Value, versionPlaceholder, version)
		n.Value = strings.ReplaceAll(n.Value, distPlaceholder, p.values.Dist)
		return
	}
	if n.Kind == yaml.MappingNode && p.values.Dist == "" {
		var kept []*yaml.Node
		for at := 0; at+1 < len(n.Content); at += 2 {
			if n.Content[at+1].Value != distPlaceholder {
				kept = append(kept, n.Content[at], n.Content[at+1])
			}
		}
		n.Content = kept
	}
	for _, c := range n.Content {
		p.fill(c)
	}
}

func (p *parser) system(n *yaml.Node) System {
	s := System{Pos: p.Pos(n)}
	fields := p.Fields(n, "a system", "id", "name", "version", "vmimageuri", "preinit")
	for key, to := range map[string]*string{"id": &s.ID, "name": &s.Name, "version": &s.Version, "vmimageuri": &s.Image, "preinit": &s.PreInit} {
		if field := fields[key]; field != nil {
			*to = p.Text(field, key)
		}
	}
	if !systemID.MatchString(s.ID) {
		p.Errorf(p.Pos(fields["id"]), "such as ubuntu-2404", "bad ID %q of a system", s.ID)
	}
	return s
}
