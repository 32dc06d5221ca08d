package spec

import (
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/strictyaml"
)

// MaxSize is the largest document that is read, in bytes. A Kubernetes object in etcd has at most 1.5 MiB.
const MaxSize = 1 << 20

// maxMistakes is the maximum number of mistakes that are reported. A server reads documents from anybody, so the list must be bounded.
const maxMistakes = 100

// Parse reads an Installer. A document without an API version is one of kURL's, and its kind may be missing. name stands for the document in positions. If the document is invalid, the error is a diag.Errors
// with its mistakes, a hundred at most; an UnreadableError wraps it if Salvage cannot read the document either. Any other error is a read error of r.
func Parse(name string, r io.Reader) (*Installer, error) {
	var p parser
	i, err := p.read(name, r)
	if err != nil {
		return nil, err
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return i, nil
}

// Salvage reads the valid parts of an Installer with mistakes. lost names each part that it left out, such as an option that does not
// exist or has a wrong type. An add-on without a version, or with a bad one, has the version "". The error is a diag.Errors if the document is not YAML that Parse reads, or not a mapping.
func Salvage(name string, r io.Reader) (i *Installer, lost []diag.Finding, err error) {
	var p parser
	if i, err = p.read(name, r); err != nil {
		return nil, nil, err
	}
	if i.APIVersion != APIVersion { // another one, which is among the lost parts
		i.APIVersion = KurlAPIVersion
	}
	for n, a := range i.AddOns {
		if !addOnVersion.MatchString(a.Version) {
			i.AddOns[n].Version = ""
		}
	}
	return i, p.Findings(), nil
}

// read reads a document. Its mistakes are p's findings; the error is for a document without a mapping to read.
func (p *parser) read(name string, r io.Reader) (*Installer, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read installer %s: %w", name, err)
	}
	p.Reader = strictyaml.Reader{Name: name, List: diag.List{Most: maxMistakes}}
	if len(data) > MaxSize {
		p.Errorf(diag.Pos{File: name}, "", "larger than %d bytes", MaxSize)
		return nil, p.unreadable()
	}
	if p.partial && strictyaml.IsEmpty(data) {
		return &Installer{}, nil // changes nothing, as in kURL
	}
	root := p.Mapping(data)
	if root == nil {
		return nil, p.unreadable()
	}
	switch values, text := size(root); {
	case values > maxValues:
		p.Errorf(diag.Pos{File: name}, "", "more than %d values; a list as long as that belongs into a file of an add-on", maxValues)
		return nil, p.unreadable()
	case text > MaxSize:
		p.Errorf(diag.Pos{File: name}, "repeat less", "larger than %d bytes with its aliases written out", MaxSize)
		return nil, p.unreadable()
	}
	return p.installer(root), nil
}

// UnreadableError is the error for a document of which no part can be read. It wraps the diag.Errors.
type UnreadableError struct{ error }

// Unwrap returns the diag.Errors.
func (e *UnreadableError) Unwrap() error { return e.error }

func (p *parser) unreadable() error { return &UnreadableError{p.Err()} }

// maxValues is the maximum number of values that an Installer has. A value takes about 1 KiB while an Installer is read and written again, and a server
// does that for anyone. Large Installers have some thousand.
const maxValues = 20_000

// size counts the values in a document, and the bytes of their text.
func size(n *yaml.Node) (values, text int) {
	values, text = 1, len(n.Value)
	for _, child := range n.Content {
		v, t := size(child)
		values, text = values+v, text+t
	}
	return values, text
}

type parser struct {
	strictyaml.Reader
	partial bool     // add-ons need no version
	legacy  bool     // the document has LegacyAPIVersion
	removed []string // names of add-ons that the document does not choose
}

// ReadSpec reads the value of `spec:` where another document contains it, such as a test of the test grid. It adds its
// findings to r, which must have checked n before.
func ReadSpec(r *strictyaml.Reader, n *yaml.Node) *Installer {
	p := parser{Reader: *r}
	i := &Installer{APIVersion: APIVersion}
	if p.IsMapping(n, "the spec of an Installer") {
		p.spec(i, n)
		p.Add(i.Migrated...)
	}
	*r = p.Reader
	return i
}
