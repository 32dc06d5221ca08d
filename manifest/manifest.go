// Package manifest is the directive language in which an add-on names what it needs from outside: one directive per
// line, words parted by blanks, nothing quoted and nothing expanded.
//
// It reads, checks and prints Manifests. It never fetches what they name and never changes their meaning: a file read,
// printed and read again gives the same directives in the same order.
package manifest

import (
	"github.com/sealift/sealift/internal/diag"
)

// The directives of the language.
const (
	KeywordImage     = "image"
	KeywordAsset     = "asset"
	KeywordDockerout = "dockerout"
	KeywordApt       = "apt"
	KeywordApt24     = "apt24"
	KeywordApt26     = "apt26"
	KeywordYum       = "yum"
	KeywordYum8      = "yum8"
	KeywordYum9      = "yum9"
	KeywordYum2023   = "yum2023"
	KeywordYumOL     = "yumol"
)

// Keywords lists every directive, in the order in which help and suggestions name them.
func Keywords() []string {
	words := []string{KeywordImage, KeywordAsset, KeywordDockerout}
	for _, kind := range HostPackageKinds() {
		words = append(words, kind.Keyword)
	}
	return words
}

// Directive is one of Image, Asset, HostPackage and Dockerout.
type Directive interface {
	// Keyword is the word that the line starts with.
	Keyword() string
	// Position is where the line starts.
	Position() diag.Pos

	word(i int) diag.Pos
}

// Origin is where a directive was read; it is embedded in every directive and is zero in one that was not read.
type Origin struct {
	Pos diag.Pos

	columns []int // of every word after the keyword
}

// Position is where the line starts.
func (o Origin) Position() diag.Pos { return o.Pos }

// word is the place of the i-th word after the keyword, or of the line when there is no such word.
func (o Origin) word(i int) diag.Pos {
	pos := o.Pos
	if i < len(o.columns) {
		pos.Col = o.columns[i]
	}
	return pos
}

// Image is `image <id> <reference> [no_remote_load]`: a container image to carry.
type Image struct {
	Origin

	ID  string // names the image inside its add-on: a file name, unique in the Manifest
	Ref string // as written, with a tag or a digest; the registry may be implied (docker.io)
	// NoRemoteLoad keeps the image off nodes other than the one that installs (kURL §1.2: jobs of the installer itself).
	NoRemoteLoad bool
}

// Keyword is "image".
func (Image) Keyword() string { return KeywordImage }

// ArchWord in the name or the source of an asset stands for the architecture that is built for, such as amd64.
const ArchWord = "{arch}"

// Asset is `asset <name> <source>` or `asset <source>`: a file to carry.
type Asset struct {
	Origin

	Name   string // file name in the package's assets folder
	Source string // http(s) URL, or a path: absolute, or relative to the Manifest's directory
}

// Keyword is "asset".
func (Asset) Keyword() string { return KeywordAsset }

// HostPackage is `apt <name>`, `yum8 <name>` and their like: a package of the operating system to carry, with what it
// depends on.
type HostPackage struct {
	Origin

	Kind HostPackageKind
	Name string
}

// Keyword is that of the package's kind.
func (p HostPackage) Keyword() string { return p.Kind.Keyword }

// Dockerout is `dockerout <target> <dockerfile> <version>` or, instead of the version, any number of
// --build-arg=NAME=value: a Dockerfile whose image writes files for one target to /out. With --context=DIR as the
// last word it sees the files of that directory, and else none.
type Dockerout struct {
	Origin

	Target     string // folder of the package that takes the output, such as rhel-9
	Dockerfile string // path relative to the root of the repository, not to the Manifest (kURL §1.2)
	BuildArgs  []BuildArg
	Context    string // directory, relative to the root of the repository as well; empty for none
}

// Keyword is "dockerout".
func (Dockerout) Keyword() string { return KeywordDockerout }

// BuildArg is one --build-arg of a Dockerout. The bare version of kURL's form has the name VERSION.
type BuildArg struct {
	Name, Value string
}

// File is one Manifest.
type File struct {
	Name string // as given to Parse; part of every position

	lines []line
}

// line is one line as it will be printed: a comment, or words of which a directive was made, or neither (blank).
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
