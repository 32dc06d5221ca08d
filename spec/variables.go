package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Variable is what an add-on's hooks see of an option. The value is data, never to be evaluated by a shell.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// AddOnName is the folder of the add-on that a key of the spec stands for: certManager is cert-manager.
func AddOnName(key string) string {
	return strings.ToLower(strings.ReplaceAll(snake(key), "_", "-"))
}

// VariableName is the variable for an option of the add-on under key: flannel's podCIDR is FLANNEL_POD_CIDR. Options
// that kURL lists under another name (kURL §2.1) are known to Variables only.
func VariableName(key, option string) string {
	return strings.ToUpper(snake(key) + "_" + snake(option))
}

// snake parts the words of a camelCase name by '_'. A run of capitals is one word (podCIDRRange: pod, CIDR, Range) and
// a digit belongs to the word before it (disableS3: disable, S3).
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

// Variables returns what hooks see of the spec, sorted by name. As in kURL every variable of the table is there, empty
// when its option is absent, so that nothing inherited from outside shines through: true is "1", false and 0 are "",
// lists are joined by commas, and a few depend on one another. Options of add-ons outside the table follow the rule of
// VariableName, a mapping being its JSON; zero stays "0" there.
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
		for name, v := range a.variables() {
			values[name] = v
		}
	}
	i.dependent(values)

	variables := make([]Variable, 0, len(values))
	for name, v := range values {
		variables = append(variables, Variable{Name: name, Value: v})
	}
	slices.SortFunc(variables, func(a, b Variable) int { return cmp.Compare(a.Name, b.Name) })
	return variables
}

// optionsOf returns what the document says under a key of the table.
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

// variables are those of an add-on outside the table.
func (a AddOn) variables() map[string]string {
	values := map[string]string{VariableName(a.Key, "version"): a.Version}
	for option, v := range a.Options {
		values[VariableName(a.Key, option)] = plain(v)
	}
	return values
}

// dependent applies the rules of kURL §2.1 by which one option changes another's variable.
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
			return strings.TrimPrefix(v, "/")
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

// joined is a list of scalars with commas between, or false when something in it is no scalar.
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

// reserved tells whether variables of an add-on under key could change how the shell or the loader work.
func reserved(key string) bool {
	word, _, _ := strings.Cut(strings.ToUpper(snake(key)), "_")
	return slices.Contains([]string{"BASH", "LD", "LC", "PROMPT", "SEALIFT"}, word)
}

// collisions reports add-ons outside the table whose options would set a variable that is another's.
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
