package module

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sealift/sealift/operator/values"
)

// Extender may switch modules on and off, by addon-operator's name.
type Extender string

// The extenders: values.yaml, global hooks, the ConfigMap, and the enabled script of the module.
const (
	Static             Extender = "Static"
	DynamicallyEnabled Extender = "DynamicallyEnabled"
	KubeConfig         Extender = "KubeConfig"
	ScriptEnabled      Extender = "ScriptEnabled"
)

// allExtenders are asked in this order.
func allExtenders() []Extender {
	return []Extender{Static, DynamicallyEnabled, KubeConfig, ScriptEnabled}
}

// ParseExtenders reads a list such as Static,KubeConfig. "" is nil: all of them.
func ParseExtenders(text string) (all []Extender, err error) {
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		e := Extender(name)
		if !slices.Contains(allExtenders(), e) {
			return nil, fmt.Errorf("%q must be one of %v", name, allExtenders())
		}
		if slices.Contains(all, e) {
			return nil, fmt.Errorf("%s is named twice", name)
		}
		all = append(all, e)
	}
	return all, nil
}

// Source is who switched a module on or off.
type Source string

// The sources of flags.
const (
	ByDefault Source = "default"
	ByCommon  Source = "values.yaml beside the modules"
	ByModule  Source = "values.yaml of the module"
	ByHook    Source = "a global hook"
	ByConfig  Source = "the ConfigMap"
)

// Flag is an extender's vote on a module, or nil if it has none. hooks are the flags that global hooks have set, by key.
// The enabled script is not asked here.
func (f *Found) Flag(e Extender, m *Module, hooks map[string]bool, config values.Config) (*bool, Source) {
	switch e {
	case Static:
		if m.Enabled != nil {
			return m.Enabled, ByModule
		}
		if flag, ok := f.Flags[m.Key]; ok {
			return &flag, ByCommon
		}
	case DynamicallyEnabled:
		if flag, ok := hooks[m.Key]; ok {
			return &flag, ByHook
		}
	case KubeConfig:
		return config.Modules[m.Key].Enabled, ByConfig
	}
	return nil, ByDefault
}

// Enabled reports whether a module is switched on, before its enabled script is asked, and by whom. A later extender wins.
// An unmentioned module is disabled.
func (f *Found) Enabled(m *Module, hooks map[string]bool, config values.Config) (on bool, by Source) {
	on, by = false, ByDefault
	for _, e := range f.Extenders {
		if flag, who := f.Flag(e, m, hooks, config); flag != nil {
			on, by = *flag, who
		}
	}
	return on, by
}
