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

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

// Options configures Write.
type Options struct {
	// From is the version that provides the parameters missing in Set; empty means the newest.
	From string
	// Set are parameters, named as in the template or in lower case with dashes: ETCD_IMAGE, etcd-image.
	Set map[string]string
}

// Version describes a written version.
type Version struct {
	Name       string            `json:"name"`
	Version    string            `json:"version"`
	Dir        string            `json:"dir"`
	From       string            `json:"from,omitempty"` // empty if the add-on had no version
	Parameters map[string]string `json:"parameters"`
	Kept       []string          `json:"kept,omitempty"`       // parameters taken from From
	ComparedTo string            `json:"comparedTo,omitempty"` // the newest version before
	Changes    []manifest.Change `json:"changes"`              // changes of the Manifest since that version
}

var (
	versionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)
	oneWord     = regexp.MustCompile(`^[!-~]+$`)
)

// Write writes a version. Its folder appears only when it is complete on the disk, and an existing folder is never changed.
// If the Manifest has mistakes, the error is a diag.Errors and nothing is written.
func (t *Template) Write(version string, o Options) (Version, error) {
	if !versionName.MatchString(version) || version == DirName {
		return Version{}, fmt.Errorf("%q is not the name of a version", version)
	}
	abs, err := filepath.Abs(t.addOn)
	if err != nil {
		return Version{}, err
	}
	v := Version{Name: filepath.Base(abs), Version: version, Dir: filepath.Join(t.addOn, version), From: o.From, Changes: []manifest.Change{}}
	if _, err := os.Lstat(v.Dir); !errors.Is(err, fs.ErrNotExist) {
		return Version{}, errors.Join(fmt.Errorf("%s already exists; remove it first to rewrite it", v.Dir), err)
	}
	if v.ComparedTo, err = newest(t.addOn); err != nil {
		return Version{}, err
	}
	if v.From == "" {
		v.From = v.ComparedTo
	}
	if v.Parameters, err = t.choose(version, v.From, o.Set); err != nil {
		return Version{}, err
	}
	v.Kept = t.kept(o.Set)
	filled, err := t.Fill(v.Parameters)
	if err != nil {
		return Version{}, fmt.Errorf("write %s: %w", v.Dir, err)
	}
	now, err := t.check(filled[manifest.FileName])
	if err != nil {
		return Version{}, err
	}
	if v.ComparedTo != "" {
		was, err := manifest.Load(filepath.Join(t.addOn, v.ComparedTo, manifest.FileName))
		if err != nil {
			return Version{}, err
		}
		v.Changes = compare(was, now)
	}
	if err := t.write(v.Dir, filled); err != nil {
		return Version{}, fmt.Errorf("write %s: %w", v.Dir, err)
	}
	return v, nil
}

// newest returns the newest version of an add-on, or "".
func newest(addOn string) (string, error) {
	versions, err := Versions(addOn)
	if err != nil || len(versions) == 0 {
		return "", err
	}
	return versions[len(versions)-1], nil
}

// Versions lists the versions of the add-on in a folder, oldest first.
func Versions(addOn string) ([]string, error) {
	manifests, err := filepath.Glob(filepath.Join(escapeGlob(addOn), "*", manifest.FileName))
	if err != nil {
		return nil, err
	}
	var versions []string
	for _, m := range manifests {
		if v := filepath.Base(filepath.Dir(m)); v != DirName && !strings.HasPrefix(v, ".") {
			versions = append(versions, v)
		}
	}
	slices.SortFunc(versions, catalog.CompareVersions)
	return versions, nil
}

// escapeGlob escapes a path for use in a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// choose collects the parameters of a version.
func (t *Template) choose(version, from string, set map[string]string) (map[string]string, error) {
	values := make(map[string]string)
	if from != "" {
		if _, err := os.Stat(filepath.Join(t.addOn, from, manifest.FileName)); err != nil {
			return nil, fmt.Errorf("read the parameters of version %s: %w", from, err)
		}
		var err error
		if values, err = t.Values(from); err != nil {
			return nil, err
		}
	}
	known := t.Parameters()
	for _, given := range slices.Sorted(maps.Keys(set)) {
		name := parameterName(given)
		switch {
		case name == VersionParameter:
			return nil, fmt.Errorf("parameter %s is the version itself and cannot be set", name)
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("the template has no parameter %s (%s)", name, diag.DidYouMean(name, known, "known: "))
		case !oneWord.MatchString(set[given]):
			return nil, fmt.Errorf("parameter %s: %q is not one word", name, set[given])
		}
		values[name] = set[given]
	}
	values[VersionParameter] = version
	return values, nil
}

// parameterName returns the template's name of a given parameter.
func parameterName(given string) string { return strings.ToUpper(strings.ReplaceAll(given, "-", "_")) }

// kept lists the parameters that set does not contain.
func (t *Template) kept(set map[string]string) []string {
	given := map[string]bool{VersionParameter: true}
	for name := range set {
		given[parameterName(name)] = true
	}
	return slices.DeleteFunc(t.Parameters(), func(name string) bool { return given[name] })
}

// check parses a filled-in Manifest. Mistakes are reported under the template's name, whose lines are the same.
func (t *Template) check(text string) (*manifest.File, error) {
	name := filepath.Join(t.addOn, DirName, ManifestFile)
	file, err := manifest.Parse(name, strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return file, diag.Err(manifest.Check(file))
}

// compare returns the changes from one Manifest to another, in the order of the new one. Removed entries come last.
func compare(was, now *manifest.File) []manifest.Change {
	before, order := contents(was)
	after, names := contents(now)
	changes := []manifest.Change{}
	for _, what := range names {
		if before[what] != after[what] {
			changes = append(changes, manifest.Change{What: what, Was: before[what], Now: after[what]})
		}
	}
	for _, what := range order {
		if _, kept := after[what]; !kept {
			changes = append(changes, manifest.Change{What: what, Was: before[what]})
		}
	}
	return changes
}

// contents maps the entries of a Manifest to their sources.
func contents(m *manifest.File) (from map[string]string, order []string) {
	from = make(map[string]string)
	for _, d := range m.Directives() {
		described := d.Describe()
		what := d.Keyword() + " " + described.Name
		from[what] = described.From
		order = append(order, what)
	}
	return from, order
}

// write creates the folder under a hidden name and renames it when it is complete.
func (t *Template) write(dir string, filled map[string]string) error {
	work, err := os.MkdirTemp(t.addOn, "."+filepath.Base(dir)+".*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	if err := t.fill(work, "", filled); err != nil {
		return err
	}
	return os.Rename(work, dir)
}

// fill writes the files of one folder. below is its path in the template. A folder without parameters becomes one link.
func (t *Template) fill(work, below string, filled map[string]string) error {
	entries, err := os.ReadDir(filepath.Join(t.addOn, DirName, below))
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(below, e.Name())
		to := filepath.Join(work, strings.TrimSuffix(path, Suffix))
		_, parameters := t.texts[path]
		switch {
		case strings.HasPrefix(e.Name(), ".") || below == "" && e.Name() == generator:
			continue
		case parameters:
			err = atomicfile.Write(to, []byte(filled[strings.TrimSuffix(path, Suffix)]))
		case e.IsDir() && t.hasParameters(path):
			if err = os.Mkdir(to, 0o755); err == nil {
				err = t.fill(work, path, filled)
			}
		default:
			up := strings.Repeat("../", 1+strings.Count(path, string(filepath.Separator)))
			err = os.Symlink(filepath.Join(up, DirName, path), to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// generator is the script with which kURL's templates write versions. It is not part of a version.
const generator = "generate.sh"

// hasParameters reports whether a folder of the template has files with parameters.
func (t *Template) hasParameters(dir string) bool {
	for path := range t.texts {
		if strings.HasPrefix(path, dir+string(filepath.Separator)) {
			return true
		}
	}
	return false
}
