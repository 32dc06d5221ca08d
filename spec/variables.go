package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Variable is an option as hooks see it. The value is data: a shell must never evaluate it.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// AddOnName returns the add-on folder for a key of the spec: cert-manager for certManager.
func AddOnName(key string) string {
	return strings.ToLower(strings.ReplaceAll(snake(key), "_", "-"))
}

// VariableName returns the variable for an option of the add-on under key: FLANNEL_POD_CIDR for flannel's podCIDR. Only
// Variables knows the options that kURL renames (kURL §2.1).
func VariableName(key, option string) string {
	return strings.ToUpper(snake(key) + "_" + snake(option))
}

// snake puts '_' between the words of a camelCase name. A run of capitals is one word (podCIDRRange: pod, CIDR, Range). A
// digit belongs to the word before it (disableS3: disable, S3).
func snake(name string) string {
	var out strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if r == '-' || r == '_' {
			out.WriteByte('_')
			continue
		}
		if i > 0 && unicode.IsUpper(r) && out.String()[out.Len()-1] != '_' {
			before := runes[i-1]
			startsWord := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if !unicode.IsUpper(before) || startsWord {
				out.WriteByte('_')
			}
		}
		out.WriteRune(r)
	}
	return out.String()
}

// Variables returns the variables that hooks see, sorted by name. As in kURL, every variable of the table is set, and empty
// if its option is absent, so that hooks inherit nothing from the environment. true is "1"; false and 0 are ""; lists are
// joined by commas; a few variables depend on others. Options outside the table follow VariableName: mappings become JSON,
// and zero stays "0".
func (i *Installer) Variables() []Variable {
	values := map[string]string{}
	for _, s := range sections() {
		options, version := i.optionsOf(s)
		for _, f := range s.all() {
			if f.variable == unexported {
				continue
			}
			v := f.variableValue(options[f.key])
			if f.key == "version" {
				v = version
			}
			values[f.variableName(s.key)] = v
		}
	}
	for _, a := range i.AddOns {
		if _, listed := known(a.Key); listed {
			continue
		}
		maps.Copy(values, a.variables())
	}
	i.dependent(values)

	variables := make([]Variable, 0, len(values))
	for name, v := range values {
		variables = append(variables, Variable{Name: name, Value: v})
	}
	slices.SortStableFunc(variables, func(a, b Variable) int { return cmp.Compare(a.Name, b.Name) })
	return variables
}

// optionsOf returns the document's options and version under a key of the table.
func (i *Installer) optionsOf(s section) (Options, string) {
	if s.versionless {
		return i.Section(s.key).Options, ""
	}
	for _, a := range i.AddOns {
		if a.Key == s.key {
			return a.Options, a.Version
		}
	}
	return nil, ""
}

// variables returns the variables of an add-on outside the table.
func (a AddOn) variables() map[string]string {
	values := map[string]string{VariableName(a.Key, "version"): a.Version}
	for option, v := range a.Options {
		values[VariableName(a.Key, option)] = plain(v)
	}
	return values
}

// dependent applies the rules by which one option changes the variable of another (kURL §2.1).
func (i *Installer) dependent(values map[string]string) {
	if values["LOAD_BALANCER_ADDRESS"] != "" {
		values["HA_CLUSTER"] = "1"
	}
	values["OFFLINE_DOCKER_INSTALL"] = values["AIRGAP"]
	if values["PRESERVE_SELINUX_CONFIG"] == "1" {
		values["DISABLE_SELINUX"] = ""
	}
	if values["PRESERVE_FIREWALLD_CONFIG"] == "1" {
		values["DISABLE_FIREWALLD"] = ""
	}
}

func (f field) variableName(key string) string {
	if f.variable != "" {
		return f.variable
	}
	return VariableName(key, f.key)
}

func (f field) variableValue(v any) string {
	switch v := v.(type) {
	case nil:
		return f.initial
	case bool:
		if !v {
			return f.off
		}
		if f.on != "" {
			return f.on
		}
	case int64:
		if v == 0 {
			return ""
		}
	case string:
		if f.is == cidrSize {
			return strings.ReplaceAll(v, "/", "")
		}
		if v == "" {
			return f.initial
		}
	}
	return plain(v)
}

// plain writes a value as one string.
func plain(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		if v {
			return "1"
		}
		return ""
	case int64:
		return strconv.FormatInt(v, 10)
	case []any:
		if words, ok := joined(v); ok {
			return words
		}
	}
	text, err := json.Marshal(v)
	if err != nil { // only values that Parse never makes
		return fmt.Sprint(v)
	}
	return string(text)
}

// joined joins a list of scalars with commas. It returns false if an item is not a scalar.
func joined(values []any) (string, bool) {
	words := make([]string, 0, len(values))
	for _, v := range values {
		switch v.(type) {
		case []any, map[string]any:
			return "", false
		}
		words = append(words, plain(v))
	}
	return strings.Join(words, ","), true
}

// reserved reports whether an add-on's variables could change how the shell or the dynamic loader work.
func reserved(key string) bool {
	word, _, _ := strings.Cut(strings.ToUpper(snake(key)), "_")
	return slices.Contains([]string{"BASH", "LD", "LC", "PROMPT", "SEALIFT"}, word)
}

// collisions reports add-ons outside the table with an option that sets the variable of another option.
func (p *parser) collisions(i *Installer) {
	owner := map[string]string{"OFFLINE_DOCKER_INSTALL": "kurl.airgap"}
	for _, s := range sections() {
		for _, f := range s.all() {
			if f.variable != unexported {
				owner[f.variableName(s.key)] = s.key + "." + f.key
			}
		}
	}
	for _, a := range i.AddOns {
		if _, listed := known(a.Key); listed {
			continue
		}
		options := []string{"version"}
		for option := range a.Options {
			options = append(options, option)
		}
		slices.Sort(options)
		for _, option := range options {
			name := VariableName(a.Key, option)
			if other := owner[name]; other != "" {
				p.Errorf(a.Pos, "rename one of them", "%s.%s and %s are both the variable %s", a.Key, option, other, name)
			}
			owner[name] = a.Key + "." + option
		}
	}
}
