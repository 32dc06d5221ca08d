package lifecycle

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/sealift/sealift/operator/module"
	"github.com/sealift/sealift/operator/schema"
	"github.com/sealift/sealift/operator/values"
)

// store holds the values of all modules: files, the ConfigMap that is in force, and what hooks have added.
type store struct {
	found   *module.Found
	modules map[string]*module.Module // by key
	schemas map[string]*schema.Set    // by key; global values have one, too

	mu      sync.Mutex
	config  values.Config
	patches map[string][]values.Operation // by key
	flags   map[string]bool               // that global hooks have set, by key of the module
	enabled []string                      // in the order in which they run; nil before the first discovery
}

func newStore(found *module.Found) *store {
	s := &store{
		found: found, modules: map[string]*module.Module{}, schemas: map[string]*schema.Set{values.GlobalKey: {}},
		patches: map[string][]values.Operation{}, flags: map[string]bool{},
	}
	for _, m := range found.Modules {
		s.modules[m.Key], s.schemas[m.Key] = m, &schema.Set{}
	}
	return s
}

// inForce returns the ConfigMap's content that counts.
func (s *store) inForce() values.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config
}

func (s *store) use(c values.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config = c
}

// unknownKeys are the keys of a configuration that belong to no module.
func (s *store) unknownKeys(c values.Config) (keys []string) {
	for key := range c.Modules {
		if s.modules[key] == nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (s *store) setEnabled(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enabled = append([]string{}, names...)
}

func (s *store) discovered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enabled != nil
}

// hookFlags are the flags that global hooks have set.
func (s *store) hookFlags() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.flags)
}

// section returns a configuration's value for a key.
func section(c values.Config, key string) any {
	if key == values.GlobalKey {
		if c.Global == nil {
			return nil
		}
		return c.Global
	}
	return c.Modules[key].Values
}

// orEmpty returns a section, or an empty one for nil: hooks add to it, and templates read it.
func orEmpty(section any) any {
	if section == nil {
		return map[string]any{}
	}
	return section
}

// configured is the section of a key from files and from a configuration, with the schema's defaults for the administrators'
// settings. A default fills what files lack; the configuration goes over both.
func (s *store) configured(key string, c values.Config) any {
	layers := []map[string]any{values.Sections(s.found.Common, key)}
	if m := s.modules[key]; m != nil {
		layers = append(layers, m.Values)
	}
	below := map[string]any{key: s.fill(schema.ConfigValues, key, values.Merge(layers...)[key])}
	if above := section(c, key); above != nil {
		below = values.Merge(below, map[string]any{key: above})
	}
	return below[key]
}

func (s *store) fill(stage schema.Stage, key string, section any) any {
	if m, ok := orEmpty(section).(map[string]any); ok {
		return s.schemas[key].Default(stage, m)
	}
	return section
}

// merged is the section of a key as hooks and charts see it. s.mu is held.
func (s *store) merged(key string) (any, error) {
	base := s.fill(schema.Values, key, s.configured(key, s.config))
	result, err := values.ApplyKept(map[string]any{key: base}, s.patches[key])
	return result[key], err
}

// checkConfig finds mistakes in a configuration: in global values, and in those of enabled modules. before is the one that it
// replaces, or nil at the start.
func (s *store) checkConfig(c values.Config, before *values.Config) error {
	flags := s.hookFlags()
	errs := []error{s.checkSection(values.GlobalKey, c, before)}
	for _, m := range s.found.Modules {
		if on, _ := s.found.Enabled(m, flags, c); on {
			errs = append(errs, s.checkSection(m.Key, c, before))
		}
	}
	return errors.Join(errs...)
}

func (s *store) checkSection(key string, c values.Config, before *values.Config) error {
	var old any
	if before != nil {
		old = s.configured(key, *before)
	}
	return s.schemas[key].Check(schema.ConfigValues, key, s.configured(key, c), old)
}

// forHooks are the values for hooks of a module, or for global hooks where key is that of global values: those of the
// ConfigMap, and all. enabled are the modules that count as enabled; nil are those of the last discovery.
func (s *store) forHooks(key string, enabled []string) (config, all []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if enabled == nil {
		enabled = s.enabled
	}
	some, full := map[string]any{}, map[string]any{}
	for _, k := range []string{values.GlobalKey, key} {
		some[k] = orEmpty(section(s.config, k))
		if full[k], err = s.merged(k); err != nil {
			return nil, nil, err
		}
	}
	if global, ok := full[values.GlobalKey].(map[string]any); ok && enabled != nil {
		global = maps.Clone(global)
		global["enabledModules"] = enabled
		full[values.GlobalKey] = global
	}
	config, err = json.Marshal(some)
	if err == nil {
		all, err = json.Marshal(full)
	}
	return config, all, err
}

// forHelm are the checked values of a chart: everything that the chart needs must be set by now.
func (s *store) forHelm(key string) (map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]any{}
	var errs []error
	for _, k := range []string{values.GlobalKey, key} {
		one, err := s.merged(k)
		if err == nil {
			err = s.schemas[k].Check(schema.HelmValues, k, one, nil)
		}
		all[k], errs = one, append(errs, err)
	}
	return all, errors.Join(errs...)
}

// sum reports whether the values of a section have changed, and for global values also the flags of hooks and of the ConfigMap.
func (s *store) sum(key string) (sum [sha256.Size]byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]any{}
	if all[key], err = s.merged(key); err != nil {
		return sum, err
	}
	if key == values.GlobalKey {
		set := map[string]*bool{}
		for name, m := range s.config.Modules {
			if m.Enabled != nil {
				set[name] = m.Enabled
			}
		}
		all["flags"] = []any{s.flags, set}
	}
	data, err := json.Marshal(all)
	return sha256.Sum256(data), err
}

// given reports whether the values that administrators and hooks have set are others, in any section.
func (s *store) given() (sum [sha256.Size]byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]any{"patches": s.patches, "global": s.config.Global}
	for key, m := range s.config.Modules {
		all["module "+key] = m.Values
	}
	data, err := json.Marshal(all)
	return sha256.Sum256(data), err
}

// patch adds a new patch of a hook to the stored ones, if the resulting values are valid. It reports whether it has changed
// the section, and whether flags.
func (s *store) patch(key string, operations []values.Operation) (changed, flagged bool, err error) {
	if len(operations) == 0 {
		return false, false, nil
	}
	rest, flags, err := splitFlags(operations, key)
	if err != nil {
		return false, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := s.merged(key)
	if err != nil {
		return false, false, err
	}
	if _, _, err = values.Apply(map[string]any{key: before}, rest, true); err != nil {
		return false, false, err
	}
	kept := s.patches[key]
	s.patches[key] = values.Compact(kept, rest)
	after, err := s.merged(key)
	if err == nil {
		err = s.schemas[key].Check(schema.Values, key, after, before)
	}
	if err != nil {
		s.patches[key] = kept
		return false, false, err
	}
	for name, flag := range flags {
		old, had := s.flags[name]
		if flag == nil {
			flagged = flagged || had
			delete(s.flags, name)
			continue
		}
		flagged = flagged || !had || old != *flag
		s.flags[name] = *flag
	}
	return !reflect.DeepEqual(before, after), flagged, nil
}

// forget drops the patches of a section.
func (s *store) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.patches, key)
}

// splitFlags checks a patch, and extracts the operations on flags such as /ingressEnabled from it. A withdrawn flag is nil.
func splitFlags(operations []values.Operation, key string) (rest []values.Operation, flags map[string]*bool, err error) {
	if err := values.CheckPatch(operations, key); err != nil {
		return nil, nil, err
	}
	flags = map[string]*bool{}
	for _, o := range operations {
		name, ok := strings.CutSuffix(strings.TrimPrefix(o.Path, "/"), values.EnabledSuffix)
		if !ok || name == "" || strings.Contains(name, "/") {
			rest = append(rest, o)
			continue
		}
		switch o.Op {
		case "remove":
			flags[name] = nil
		case "add":
			text := strings.ToLower(strings.Trim(string(o.Value), `" `))
			if text != "true" && text != "false" {
				return nil, nil, fmt.Errorf("values patch: %s must be true or false", o.Path)
			}
			on := text == "true"
			flags[name] = &on
		}
	}
	return rest, flags, nil
}

// kept are the patches of a section, as the debug socket shows them.
func (s *store) kept(key string) []values.Operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat([]values.Operation{}, s.patches[key])
}
