package values

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sealift/sealift/internal/document"
	"github.com/sealift/sealift/internal/strictyaml"
)

// Config is the configuration of administrators: the data of the ConfigMap.
type Config struct {
	Global  map[string]any
	Modules map[string]ModuleConfig // by key
}

// ModuleConfig is the section of one module. Its zero value sets nothing.
type ModuleConfig struct {
	Values  any   // a map or a list, nil without a section
	Enabled *bool // nil without a flag
	// Unmanaged means that the module's objects are left alone: maintenance NoResourceReconciliation.
	Unmanaged bool
}

var camelCase = regexp.MustCompile(`^[a-z0-9][a-zA-Z0-9]*$`)

// ReadConfig reads the data of a ConfigMap. Its error names every invalid key.
func ReadConfig(data map[string]string) (Config, error) {
	c := Config{Modules: map[string]ModuleConfig{}}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if err := c.read(key, data[key]); err != nil {
			errs = append(errs, fmt.Errorf("ConfigMap key %s: %w", key, err))
		}
	}
	return c, errors.Join(errs...)
}

func (c *Config) read(key, text string) error {
	if !camelCase.MatchString(key) {
		return fmt.Errorf("bad module name '%s': should be camelCased", key)
	}
	if name, ok := strings.CutSuffix(key, EnabledSuffix); ok && name != "" {
		return c.change(name, func(m *ModuleConfig) error { return m.setEnabled(strings.TrimSpace(text)) })
	}
	if name, ok := strings.CutSuffix(key, MaintenanceSuffix); ok && name != "" {
		return c.change(name, func(m *ModuleConfig) error { return m.setMaintenance(strings.TrimSpace(text)) })
	}
	value, err := ReadSection(key, text)
	if err != nil {
		return err
	}
	if key == GlobalKey {
		section, ok := value.(map[string]any)
		if !ok && value != nil {
			return errors.New("must be a map")
		}
		c.Global = section
		return nil
	}
	return c.change(key, func(m *ModuleConfig) error { return m.setValues(value) })
}

// ReadSection reads the text of a section: global values as YAML 1.1, and those of a module as YAML 1.2, in which no and off are text.
func ReadSection(key, text string) (section any, err error) {
	if key != GlobalKey {
		if section, err = document.Plain([]byte(text)); err != nil {
			return nil, fmt.Errorf("not YAML: %w", err)
		}
		return section, nil
	}
	asJSON, err := strictyaml.ToJSON([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	err = json.Unmarshal(asJSON, &section)
	return section, err
}

func (c *Config) change(key string, set func(*ModuleConfig) error) error {
	m := c.Modules[key]
	err := set(&m)
	c.Modules[key] = m
	return err
}

// setValues sets a section. A bare boolean is the flag: the documentation of addon-operator disables a module so.
func (m *ModuleConfig) setValues(value any) error {
	switch v := value.(type) {
	case nil:
	case map[string]any, []any:
		m.Values = v
	case bool:
		return m.setEnabled(strconv.FormatBool(v))
	case string:
		if v == "true" || v == "false" {
			return m.setEnabled(v)
		}
		return errors.New("must be a map or a list, not a string")
	default:
		return fmt.Errorf("must be a map or a list, not %v", v)
	}
	return nil
}

func (m *ModuleConfig) setEnabled(text string) error {
	if text != "true" && text != "false" {
		return fmt.Errorf("%q is neither \"true\" nor \"false\"", text)
	}
	enabled := text == "true"
	if m.Enabled != nil && *m.Enabled != enabled {
		return errors.New("the section and the flag of the module disagree; remove one of them")
	}
	m.Enabled = &enabled
	return nil
}

func (m *ModuleConfig) setMaintenance(text string) error {
	if m.Unmanaged = strings.EqualFold(text, "NoResourceReconciliation"); !m.Unmanaged && text != "" && text != "Managed" {
		return fmt.Errorf("%q is neither NoResourceReconciliation nor Managed", text)
	}
	return nil
}
