// Package manifest is the language in which an add-on names the content that it needs from outside: one directive per line, words
// separated by blanks, nothing quoted and nothing expanded.
//
// It reads, checks and prints Manifests. It never fetches their content and never changes their meaning: a file that is read,
// printed and read again has the same directives in the same order.
//
// Comments cite rules of kURL by section (kURL §1.2): docs/reference/kurl.md has them.
package manifest

import (
	"github.com/sealift/sealift/internal/diag"
)

// Directive is one line's request. Each kind of directive is a type of this package, in its own file.
type Directive interface {
	// Keyword is the word that the line starts with.
	Keyword() string
	// Position is where the line starts.
	Position() diag.Pos
	// Describe returns the meaning of the words.
	Describe() Description

	word(i int) diag.Pos
	// check reports semantic mistakes.
	check(c *checker)
}

// Description describes a directive, for people and as JSON.
type Description struct {
	Name         string            `json:"name"` // its name inside the package
	From         string            `json:"-"`    // the rest, in words
	Reference    string            `json:"reference,omitempty"`
	NoRemoteLoad bool              `json:"noRemoteLoad,omitempty"`
	Source       string            `json:"source,omitempty"`
	Targets      []string          `json:"targets,omitempty"`
	Dockerfile   string            `json:"dockerfile,omitempty"`
	BuildArgs    map[string]string `json:"buildArgs,omitempty"`
	Context      string            `json:"context,omitempty"`
	Version      string            `json:"version,omitempty"`
	Namespace    string            `json:"namespace,omitempty"`
}

// Origin is the position of a directive; it is embedded in every directive and is zero in one that was not read.
type Origin struct {
	Pos diag.Pos

	columns []int // of every word after the keyword
}

// Position is where the line starts.
func (o Origin) Position() diag.Pos { return o.Pos }

// word is the position of the i-th word after the keyword, or of the line when there is no such word.
func (o Origin) word(i int) diag.Pos {
	pos := o.Pos
	if i < len(o.columns) {
		pos.Col = o.columns[i]
	}
	return pos
}

// File is one Manifest.
type File struct {
	Name string // as given to Parse; part of every position

	lines []line
}

// line is one line to print: a comment, the words of a directive, or neither (blank).
type line struct {
	comment   string
	words     []string
	directive Directive
}

// Directives returns the directives in the order of the file.
func (f *File) Directives() []Directive {
	var all []Directive
	for _, l := range f.lines {
		if l.directive != nil {
			all = append(all, l.directive)
		}
	}
	return all
}

// Images returns the image directives in the order of the file.
func (f *File) Images() []Image { return of[Image](f) }

// Assets returns the asset directives in the order of the file.
func (f *File) Assets() []Asset { return of[Asset](f) }

// HostPackages returns the package directives of every kind in the order of the file.
func (f *File) HostPackages() []HostPackage { return of[HostPackage](f) }

// Charts returns the chart directives in the order of the file.
func (f *File) Charts() []Chart { return of[Chart](f) }

// Dockerouts returns the dockerout directives in the order of the file.
func (f *File) Dockerouts() []Dockerout { return of[Dockerout](f) }

func of[T Directive](f *File) []T {
	var some []T
	for _, l := range f.lines {
		if d, ok := l.directive.(T); ok {
			some = append(some, d)
		}
	}
	return some
}
