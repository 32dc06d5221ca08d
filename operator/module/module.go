// Package module finds modules in folders, and reports which are enabled.
//
// A module is a folder with hooks, a chart, schemas or values. Its name is the folder's without its leading number, which is
// its order. The package reads files; it runs nothing.
package module

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/strictyaml"
	"github.com/sealift/sealift/operator/values"
)

// Module is one module as found in its folder.
type Module struct {
	Name  string // such as ingress-nginx
	Key   string // of its values, such as ingressNginx
	Path  string
	Order int
	// Values are those of values.yaml beside it, with those of its own over them, below its key. Enabled is the flag in its own, or nil.
	Values  map[string]any
	Enabled *bool
	// Provides, Requires and After are the relations in addon.yaml, if the folder is an add-on of Sealift.
	Provides, Requires, After []string
}

// Found has the modules of the folders.
type Found struct {
	Modules []*Module // required modules first; otherwise by order, then by name
	// Common has the global values of values.yaml in all folders, below their key. Flags are the flags there, by module key.
	Common map[string]any
	Flags  map[string]bool
	// Extenders may switch modules on and off.
	Extenders []Extender
}

// Options of Find.
type Options struct {
	DefaultOrder int // of modules without a number
	// Extenders may switch modules on and off; nil are all, in the order of ParseExtenders.
	Extenders []Extender
	Strict    bool         // values.yaml beside the modules must exist
	Log       *slog.Logger // gets warnings; nil is silence
}

// DefaultOrder is the order of modules without a number.
const DefaultOrder = 1

// valuesFile holds values of modules, in a module or beside modules.
const valuesFile = "values.yaml"

// valuesSize bounds it.
const valuesSize = 4 << 20

var folderName = regexp.MustCompile(`^(?:([0-9]+)-)?(.+)$`)

// Find reads the folders of a path list, such as $MODULES_DIR. Of two modules with one name the first counts, and the log gets
// a warning.
func Find(pathList string, o Options) (*Found, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	f := &Found{Common: map[string]any{}, Flags: map[string]bool{}, Extenders: o.Extenders}
	if f.Extenders == nil {
		f.Extenders = allExtenders()
	}
	var errs []error
	for _, dir := range filepath.SplitList(pathList) {
		if dir == "" { // as in /modules: or $OTHER:/modules
			continue
		}
		errs = append(errs, f.addFolder(dir, o))
	}
	slices.SortStableFunc(f.Modules, func(a, b *Module) int { return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name)) })
	errs = append(errs, f.checkKeys(), f.relate())
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *Found) addFolder(dir string, o Options) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("path '%s' does not exist", dir)
	}
	if err != nil {
		return err
	}
	common, flags, err := readValues(filepath.Join(dir, valuesFile), nil)
	if err == nil && common == nil && o.Strict {
		err = fmt.Errorf("path '%s' has no %s", dir, valuesFile)
	}
	if err != nil {
		return err
	}
	f.Common = values.Merge(f.Common, values.Sections(common, values.GlobalKey))
	maps.Copy(f.Flags, flags)
	var errs []error
	for _, entry := range entries { // sorted by name
		path := filepath.Join(dir, entry.Name())
		info, err := os.Stat(path) // of a link's target
		if errors.Is(err, fs.ErrNotExist) {
			o.Log.Warn("a link in a folder of modules leads nowhere; it is not a module", "link", path)
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !info.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		errs = append(errs, f.addModule(path, common, o))
	}
	return errors.Join(errs...)
}

// addModule adds the module in a folder. common are the values beside it: those of another folder are for the modules there.
func (f *Found) addModule(path string, common map[string]any, o Options) error {
	parts := folderName.FindStringSubmatch(filepath.Base(path))
	if err := catalog.CheckModuleName(parts[2]); err != nil {
		return fmt.Errorf("module %s: %w", path, err)
	}
	m := &Module{Name: parts[2], Key: values.Key(parts[2]), Path: path, Order: o.DefaultOrder}
	if parts[1] != "" {
		number, err := strconv.ParseInt(parts[1], 10, 32)
		if err != nil {
			return fmt.Errorf("module %s: the number %s is too large for an order", path, parts[1])
		}
		m.Order = int(number)
	}
	for _, other := range f.Modules {
		if other.Name == m.Name {
			o.Log.Warn("module is not registered, because it has a duplicate", "module", path, "registered", other.Path)
			return nil
		}
	}
	// What else the file has are the defaults of the chart, which Helm reads.
	own := func(key string) bool { return key == m.Key || key == m.Key+values.EnabledSuffix }
	sections, flags, err := readValues(filepath.Join(path, valuesFile), own)
	if err != nil {
		return err
	}
	m.Values = values.Merge(values.Sections(common, m.Key), values.Sections(sections, m.Key))
	if enabled, ok := flags[m.Key]; ok {
		m.Enabled = &enabled
	}
	if err := m.readRelations(); err != nil {
		return fmt.Errorf("module %s: %w", path, err)
	}
	f.Modules = append(f.Modules, m)
	return nil
}

// checkKeys refuses two modules with the same key in values.
func (f *Found) checkKeys() error {
	var errs []error
	paths := map[string]string{}
	for _, m := range f.Modules {
		if other, ok := paths[m.Key]; ok {
			errs = append(errs, fmt.Errorf("modules %s and %s have the same key %s in values; rename one of them", other, m.Path, m.Key))
		}
		paths[m.Key] = m.Path
	}
	return errors.Join(errs...)
}

// readValues reads the sections and flags whose keys are ours; nil are all. A file that does not exist has none.
func readValues(path string, ours func(key string) bool) (sections map[string]any, flags map[string]bool, err error) {
	file, err := regularfile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, valuesSize+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, nil, err
	}
	if len(data) > valuesSize {
		return nil, nil, fmt.Errorf("%s: larger than %d MiB", path, valuesSize>>20)
	}
	sections, flags, err = splitValues(data, ours)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return sections, flags, nil
}

// splitValues takes sections and flags of a values.yaml apart.
func splitValues(data []byte, ours func(key string) bool) (sections map[string]any, flags map[string]bool, err error) {
	asJSON, err := strictyaml.ToJSON(data)
	if err != nil {
		return nil, nil, fmt.Errorf("not YAML: %w", err)
	}
	if err := json.Unmarshal(asJSON, &sections); err != nil {
		return nil, nil, errors.New("is not a mapping")
	}
	if ours != nil {
		maps.DeleteFunc(sections, func(key string, _ any) bool { return !ours(key) })
	}
	flags = map[string]bool{}
	var errs []error
	for key, value := range sections {
		name, isFlag := strings.CutSuffix(key, values.EnabledSuffix)
		switch v := value.(type) {
		case bool:
			if !isFlag || name == "" {
				errs = append(errs, fmt.Errorf("key %s: must be a map or a list, not a boolean", key))
				continue
			}
			flags[name] = v
			delete(sections, key)
		case map[string]any, []any, nil:
			if isFlag && name != "" {
				errs = append(errs, fmt.Errorf("key %s: must be true or false", key))
			}
		default:
			errs = append(errs, fmt.Errorf("key %s: must be %s, not %v", key, map[bool]string{true: "true or false", false: "a map or a list"}[isFlag], v))
		}
	}
	return sections, flags, errors.Join(errs...)
}
