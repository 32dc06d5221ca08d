// Package template writes a new version of an add-on from the parts that its versions share.
//
// The folder addons/<name>/template has the files of a version. For a file that ends in .tmpl, the version gets a file
// without that ending, with a parameter's value for every ${NAME}. For every other file, the version gets a symbolic link.
// ${VERSION} is the version itself. Other parameters are given, or have the value of an earlier version.
//
// The package runs no shell and no script of the add-on, and fetches nothing.
package template

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sealift/sealift/catalog/origin"
	"github.com/sealift/sealift/manifest"
)

const (
	// DirName is the name of the template folder in an add-on's folder.
	DirName = "template"
	// Suffix is the suffix of files with parameters.
	Suffix = ".tmpl"
	// ManifestFile is the Manifest with parameters. A folder with this file is a template.
	ManifestFile = manifest.FileName + Suffix
	// VersionParameter is a parameter of every template.
	VersionParameter = origin.VersionParameter
)

const maxFileSize = 1 << 20 // in bytes, of a file with parameters

var placeholder = regexp.MustCompile(`\$\{([A-Z][A-Z0-9_]*)\}`)

// Template is the template of one add-on.
type Template struct {
	addOn string            // directory of the add-on
	texts map[string]string // files with parameters, by path below the template
}

// Open reads the template of the add-on in dir, addons/<name>. If there is no template, the error is fs.ErrNotExist.
func Open(dir string) (*Template, error) {
	t := &Template{addOn: dir, texts: make(map[string]string)}
	root := filepath.Join(dir, DirName)
	if _, err := os.Stat(filepath.Join(root, ManifestFile)); err != nil {
		return nil, fmt.Errorf("open template: %w", err)
	}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, Suffix) {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() > maxFileSize {
			return fmt.Errorf("%s is not a regular file of at most %d bytes", path, maxFileSize)
		}
		text, err := readText(path)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, path)
		t.texts[below] = text
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open template: %w", err)
	}
	return t, nil
}

// readText reads a file that must be valid UTF-8.
func readText(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil && !utf8.Valid(text) {
		err = fmt.Errorf("%s is not UTF-8", path)
	}
	return string(text), err
}

// Parameters lists the parameters of the template, sorted by name.
func (t *Template) Parameters() []string {
	names := map[string]bool{VersionParameter: true}
	for _, text := range t.texts {
		for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
			names[m[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Values returns the parameters of an existing version, read back from its files. Parameters that the files do not reveal
// are missing.
func (t *Template) Values(version string) (map[string]string, error) {
	values := map[string]string{VersionParameter: version}
	for _, below := range slices.Sorted(maps.Keys(t.texts)) {
		filled, err := readText(filepath.Join(t.addOn, version, strings.TrimSuffix(below, Suffix)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		readBack(t.texts[below], filled, values)
	}
	return values, nil
}

// readBack adds the parameters to values that turn the lines of text into the lines of filled.
func readBack(text, filled string, values map[string]string) {
	lines := strings.Split(filled, "\n")
	for line := range strings.Lines(text) {
		pattern, names := linePattern(strings.TrimSuffix(line, "\n"), values)
		if len(names) == 0 {
			continue
		}
		for _, candidate := range lines {
			if found := pattern.FindStringSubmatch(candidate); found != nil && take(names, found[1:], values) {
				break
			}
		}
	}
}

// linePattern matches the output of a template line, with a group for each parameter that has no value yet.
func linePattern(line string, values map[string]string) (*regexp.Regexp, []string) {
	var pattern strings.Builder
	var names []string
	at := 0
	for _, m := range placeholder.FindAllStringSubmatchIndex(line, -1) {
		pattern.WriteString(regexp.QuoteMeta(line[at:m[0]]))
		name := line[m[2]:m[3]]
		if value, known := values[name]; known {
			pattern.WriteString(regexp.QuoteMeta(value))
		} else {
			pattern.WriteString(`(\S+?)`)
			names = append(names, name)
		}
		at = m[1]
	}
	pattern.WriteString(regexp.QuoteMeta(line[at:]))
	return regexp.MustCompile("^" + pattern.String() + "$"), names
}

// take records the found parameters, unless one parameter has two values.
func take(names, found []string, values map[string]string) bool {
	taken := make(map[string]string)
	for i, name := range names {
		if earlier, twice := taken[name]; twice && earlier != found[i] {
			return false
		}
		taken[name] = found[i]
	}
	maps.Copy(values, taken)
	return true
}

// Fill returns the files with parameters, filled in, by path below a version. The error names every parameter without a
// value.
func (t *Template) Fill(values map[string]string) (map[string]string, error) {
	filled := make(map[string]string)
	missing := make(map[string]bool)
	for below, text := range t.texts {
		filled[strings.TrimSuffix(below, Suffix)] = placeholder.ReplaceAllStringFunc(text, func(found string) string {
			name := found[2 : len(found)-1]
			value, ok := values[name]
			if !ok {
				missing[name] = true
			}
			return value
		})
	}
	if len(missing) > 0 {
		return nil, &MissingError{Parameters: slices.Sorted(maps.Keys(missing))}
	}
	return filled, nil
}

// MissingError names the parameters without a value.
type MissingError struct {
	Parameters []string
}

func (e *MissingError) Error() string {
	return "no value for " + strings.Join(e.Parameters, ", ")
}
