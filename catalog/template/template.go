// Package template writes a new version of an add-on from what its versions share.
//
// The directory addons/<name>/template has the files of a version. A file that ends in .tmpl is written without that
// ending and with every ${NAME} replaced by a parameter; all others are symbolic links in each version. ${VERSION} is
// the version itself; the value of any other parameter is given, or is the one that an earlier version has.
//
// Nothing is run, no shell and no script of the add-on, and nothing is fetched.
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

	"github.com/sealift/sealift/manifest"
)

const (
	// DirName is what the directory is called in that of the add-on.
	DirName = "template"
	// Suffix ends the names of files that have parameters.
	Suffix = ".tmpl"
	// ManifestFile is the Manifest with parameters, which makes the directory a template that versions can be written from.
	ManifestFile = manifest.FileName + Suffix
	// VersionParameter is the parameter that every template has.
	VersionParameter = "VERSION"
)

const maxFileSize = 1 << 20 // bytes, of a file with parameters

var placeholder = regexp.MustCompile(`\$\{([A-Z][A-Z0-9_]*)\}`)

// Template is the template of one add-on.
type Template struct {
	addOn string            // directory of the add-on
	texts map[string]string // files with parameters, by path below the template
}

// Open reads the template of the add-on in dir, addons/<name>. An error is fs.ErrNotExist when it has none with a
// Manifest to fill in.
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

// readText reads a file of text, which patterns can be made of.
func readText(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil && !utf8.Valid(text) {
		err = fmt.Errorf("%s is not UTF-8", path)
	}
	return string(text), err
}

// Parameters lists the parameters of the template in order of their names.
func (t *Template) Parameters() []string {
	names := map[string]bool{VersionParameter: true}
	for _, text := range t.texts {
		for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
			names[m[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Values returns the parameters that a version was written with, read back from its files. Those that its files do not
// tell are missing.
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

// readBack adds to values the parameters by which the lines of text became lines of filled.
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

// linePattern matches what a line of a template may become, with a group for each parameter that has no value yet.
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

// take keeps what was found, unless one parameter was found with two values.
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

// Fill returns the files that have parameters, by path below a version, with those filled in. The error names every
// parameter that has no value.
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

// MissingError names the parameters that have no value.
type MissingError struct {
	Parameters []string
}

func (e *MissingError) Error() string {
	return "no value for " + strings.Join(e.Parameters, ", ")
}
