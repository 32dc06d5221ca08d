package binding

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/strictyaml"
	"github.com/sealift/sealift/operator/shape"
)

// Parse reads a hook's output for --config, as JSON or YAML. Its error holds every mistake that it finds and names hook and key
// in each.
func Parse(hook string, printed []byte, scope Scope) (*Config, error) {
	c, errs := parse(printed, scope)
	if len(errs) == 0 {
		if _, err := yaml.YAMLToJSONStrict(printed); err != nil {
			c.Warnings = append(c.Warnings, strings.Join(strings.Fields(err.Error()), " "))
		}
		return c, nil
	}
	for i, err := range errs {
		errs[i] = fmt.Errorf("configuration of hook %s: %w", hook, err)
	}
	return nil, errors.Join(errs...)
}

func parse(printed []byte, scope Scope) (*Config, []error) {
	if len(strings.TrimSpace(string(printed))) == 0 {
		return nil, []error{errors.New("it printed nothing for --config; print a configuration with configVersion: v1")}
	}
	asJSON, err := strictyaml.ToJSON(printed)
	if err != nil {
		return nil, []error{fmt.Errorf("neither YAML nor JSON: %w", err)}
	}
	var document any
	if err := json.Unmarshal(asJSON, &document); err != nil {
		return nil, []error{fmt.Errorf("neither YAML nor JSON: %w", err)}
	}
	fields, ok := document.(map[string]any)
	if !ok {
		return nil, formV1(scope).Check(document, "")
	}
	version, versioned := fields["configVersion"]
	switch {
	case !versioned:
		if errs := formV0(scope).Check(document, ""); errs != nil {
			return nil, errs
		}
		return read(document, scope, (*fileV0).config)
	case version != "v1":
		return nil, []error{fmt.Errorf("'configVersion' value '%v' is unsupported; say v1", version)}
	}
	if errs := formV1(scope).Check(document, ""); errs != nil {
		return nil, errs
	}
	return read(document, scope, (*fileV1).config)
}

// read decodes a document that has its form, and turns it into a configuration.
func read[File any](document any, scope Scope, config func(*File, *reader) *Config) (*Config, []error) {
	data, err := json.Marshal(document) // numbers such as 1.0 become 1
	if err != nil {
		return nil, []error{err}
	}
	var file File
	orders := map[Type]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(data, &file), json.Unmarshal(data, &orders)); err != nil {
		return nil, []error{err}
	}
	r := &reader{}
	c := config(&file, r)
	c.Orders = map[Type]float64{}
	for _, t := range ordered[scope] {
		if text, ok := orders[t]; ok {
			var order float64
			if err := json.Unmarshal(text, &order); err != nil {
				r.add(string(t), err)
			}
			c.Orders[t] = order
		}
	}
	return c, r.errs
}

// reader collects mistakes that involve several keys.
type reader struct{ errs []error }

func (r *reader) add(path string, err error) {
	if err != nil {
		r.errs = append(r.errs, shape.Mistake{Path: path, Text: err.Error()})
	}
}

func (r *reader) addf(path, format string, args ...any) { r.add(path, fmt.Errorf(format, args...)) }

// duration reads a period such as 3s.
func (r *reader) duration(path, text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		r.addf(path, "%q is not a duration such as 3s or 1m30s", text)
	}
	return d
}

// crontab checks a crontab.
func (r *reader) crontab(path, text string) string {
	_, err := ParseCrontab(text)
	r.add(path, err)
	return text
}

var crontabs = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// ParseCrontab reads five or six fields, or a descriptor such as @hourly or @every 30s, after an optional TZ=Zone (S-31).
func ParseCrontab(text string) (cron.Schedule, error) {
	// The parser panics where a zone has nothing after it.
	if zone, _, found := strings.Cut(strings.TrimSpace(text), " "); !found && strings.Contains(zone, "=") {
		return nil, fmt.Errorf("crontab %q has a time zone and no fields", text)
	}
	schedule, err := crontabs.Parse(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("crontab %q is invalid: %w", text, err)
	}
	fields := strings.Fields(text)
	if times, ok := schedule.(*cron.SpecSchedule); ok && len(fields) >= 5 { // no descriptor
		times.Dom |= starred(fields[len(fields)-3])
		times.Dow |= starred(fields[len(fields)-1])
	}
	return schedule, nil
}

// star is the parser's mark of a field of days with a star: then both of these fields must match, and otherwise one of them. The parser leaves
// it out if there is a step, as in */2, and that of shell-operator does not.
func starred(field string) uint64 {
	if strings.ContainsAny(field, "*?") {
		return 1 << 63
	}
	return 0
}

// includes checks the names of snapshots: each must be the name of exactly one kubernetes binding.
func (r *reader) includes(path string, c *Config, names []string) {
	for i, name := range names {
		switch found := c.kubernetesOf(name); {
		case found == 0:
			r.addf(fmt.Sprintf("%s.includeSnapshotsFrom[%d]", path, i), "there is no kubernetes binding '%s'", name)
		case found > 1:
			r.addf(fmt.Sprintf("%s.includeSnapshotsFrom[%d]", path, i), "there are %d kubernetes bindings '%s'; give them different names", found, name)
		}
	}
}

// group adds the bindings of its group to the snapshots that a binding includes.
func (c *Config) group(b *Common) {
	if b.Group == "" {
		return
	}
	for i := range c.Kubernetes {
		if k := &c.Kubernetes[i]; k.Group == b.Group && !slices.Contains(b.Include, k.Name) {
			b.Include = append(slices.Clone(b.Include), k.Name)
		}
	}
}

func common(name string, fallback Type, queue, group string, allowFailure bool, include []string) Common {
	return Common{
		Name: cmp.Or(name, string(fallback)), Queue: cmp.Or(queue, MainQueue), Group: group,
		AllowFailure: allowFailure, Include: include,
	}
}
