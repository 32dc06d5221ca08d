package page

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	kyaml "sigs.k8s.io/yaml"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/internal/strictyaml"
	"github.com/sealift/sealift/spec"
)

// Names of the form's fields: version.<add-on>, option.<add-on>.<option>, and one for further settings.
const (
	versionField = "version."
	optionField  = "option."
	furtherField = "further"
)

// choice is one add-on in the form.
type choice struct {
	Name        string
	Description string
	Versions    []string // the first is the default
	Version     string   // the chosen one, or empty
	Options     []field
	Provides    []string
	Requires    []string
	License     string
	Size        int64 // of the package of the chosen version, or of the newest
}

// field is an option in the form.
type field struct {
	Name   string // name of the HTML field
	Key    string
	Help   string
	Type   catalog.OptionType
	Enum   []string
	Value  string // the sent value
	Unset  string // the option's default
	Wrong  string // the mistake in the value
	parsed any
}

// Is compares the type with a name, for the template.
func (f field) Is(kind string) bool { return string(f.Type) == kind }

// fields returns the fields of an add-on's options, with the sent values.
func fields(meta catalog.Meta, sent url.Values) []field {
	var all []field
	for _, key := range slices.Sorted(maps.Keys(meta.Options)) {
		option := meta.Options[key]
		f := field{Name: optionField + meta.Name + "." + key, Key: key, Help: option.Description, Type: option.Type}
		for _, allowed := range option.Enum {
			f.Enum = append(f.Enum, fmt.Sprint(allowed))
		}
		if option.Type == catalog.Boolean {
			f.Enum = []string{"true", "false"}
		}
		if option.Default != nil {
			f.Unset = fmt.Sprint(option.Default)
		}
		f.Value = strings.ReplaceAll(sent.Get(f.Name), "\r\n", "\n")
		if f.Value != "" {
			f.parse()
		}
		all = append(all, f)
	}
	return all
}

// parse parses the value as the option's type. Text is never parsed as YAML.
func (f *field) parse() {
	var err error
	value := strings.TrimSpace(f.Value)
	switch f.Type {
	case catalog.String:
		f.parsed = f.Value
	case catalog.Boolean:
		f.parsed, err = strconv.ParseBool(value)
	case catalog.Integer:
		f.parsed, err = strconv.ParseInt(value, 10, 64)
	case catalog.Number:
		f.parsed, err = strconv.ParseFloat(value, 64)
	default:
		r := strictyaml.Reader{Name: f.Key}
		if node := r.Any([]byte(f.Value)); node != nil {
			f.parsed = strictyaml.Value(node)
		}
		err = r.Err()
	}
	if err != nil {
		f.Wrong = fmt.Sprintf("not a valid %s", f.Type)
	}
}

// installer returns the Installer that the form describes.
func installer(choices []choice, further string) (*spec.Installer, error) {
	var errs []error
	body := map[string]any{}
	for _, c := range choices {
		if c.Version == "" {
			continue
		}
		addOn := map[string]any{"version": c.Version}
		for _, f := range c.Options {
			switch {
			case f.Wrong != "":
				errs = append(errs, fmt.Errorf("%s: option %s: %s", c.Name, f.Key, f.Wrong))
			case f.Value != "":
				addOn[f.Key] = f.parsed
			}
		}
		body[c.Name] = addOn
	}
	more, err := parseFurther(further)
	errs = append(errs, err, merge(body, more))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	text, err := kyaml.Marshal(map[string]any{"apiVersion": spec.APIVersion, "kind": spec.Kind, "spec": body})
	if err != nil {
		return nil, err
	}
	return spec.Parse("the Installer", bytes.NewReader(text))
}

// merge adds the further settings: other keys of the spec, and other options of a chosen add-on.
func merge(body, more map[string]any) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(more)) {
		chosen, isChosen := body[key].(map[string]any)
		options, isMapping := more[key].(map[string]any)
		switch {
		case !isChosen:
			body[key] = more[key]
		case !isMapping:
			errs = append(errs, fmt.Errorf("further settings: %s must be a mapping", key))
		default:
			for _, name := range slices.Sorted(maps.Keys(options)) {
				if _, twice := chosen[name]; twice {
					errs = append(errs, fmt.Errorf("further settings: %s: %s is also set above; keep one of them", key, name))
					continue
				}
				chosen[name] = options[name]
			}
		}
	}
	return errors.Join(errs...)
}

// parseFurther parses the further settings, which are YAML below spec.
func parseFurther(text string) (map[string]any, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	r := strictyaml.Reader{Name: "further settings"}
	root := r.Mapping([]byte(text))
	if root == nil {
		return nil, fmt.Errorf("further settings are not a YAML mapping, such as 'kurl: {proxyAddress: …}': %w", r.Err())
	}
	more, _ := strictyaml.Value(root).(map[string]any)
	return more, nil
}
