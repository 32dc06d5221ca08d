package module

import (
	"github.com/sealift/sealift/operator/values"
)

// Source is who switched a module on or off.
type Source string

// The sources of flags. A later one wins.
const (
	ByDefault Source = "default"
	ByCommon  Source = "values.yaml beside the modules"
	ByModule  Source = "values.yaml of the module"
	ByHook    Source = "a global hook"
	ByConfig  Source = "the ConfigMap"
)

// Enabled says whether a module is switched on, before its enabled script is asked, and by whom. hooks are the flags that
// global hooks have set, by key. A module that nobody mentions is off.
func (f *Found) Enabled(m *Module, hooks map[string]bool, config values.Config) (on bool, by Source) {
	on, by = false, ByDefault
	if flag, ok := f.Flags[m.Key]; ok {
		on, by = flag, ByCommon
	}
	if m.Enabled != nil {
		on, by = *m.Enabled, ByModule
	}
	if flag, ok := hooks[m.Key]; ok {
		on, by = flag, ByHook
	}
	if flag := config.Modules[m.Key].Enabled; flag != nil {
		on, by = *flag, ByConfig
	}
	return on, by
}

// Layers are the values that a module has from files and from the ConfigMap. A later layer goes over an earlier one: those beside
// the modules, its own, and the administrators'. They have the sections global and that of the module.
func (f *Found) Layers(m *Module, config values.Config) []map[string]any {
	set := map[string]any{}
	if config.Global != nil {
		set[values.GlobalKey] = config.Global
	}
	if section := config.Modules[m.Key].Values; section != nil {
		set[m.Key] = section
	}
	return []map[string]any{values.Sections(f.Common, values.GlobalKey, m.Key), m.Values, set}
}
