package binding

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	admission "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sealift/sealift/operator/jq"
)

// fileV1 is a configuration with configVersion v1.
type fileV1 struct {
	Settings struct {
		MinInterval string `json:"executionMinInterval"`
		MinPeriod   string `json:"executionMinPeriod"` // the name in the documentation of addon-operator (S-6)
		Burst       int    `json:"executionBurst"`
	} `json:"settings"`
	Schedule   []scheduleV1   `json:"schedule"`
	Kubernetes []kubernetesV1 `json:"kubernetes"`
	Validating []admissionV1  `json:"kubernetesValidating"`
	Mutating   []admissionV1  `json:"kubernetesMutating"`
	Conversion []conversionV1 `json:"kubernetesCustomResourceConversion"`
}

type scheduleV1 struct {
	Name         string   `json:"name"`
	Crontab      string   `json:"crontab"`
	AllowFailure bool     `json:"allowFailure"`
	Include      []string `json:"includeSnapshotsFrom"`
	Queue        string   `json:"queue"`
	Group        string   `json:"group"`
}

type namesV1 struct {
	MatchNames []string `json:"matchNames"`
}

type kubernetesV1 struct {
	Name              string                `json:"name"`
	APIVersion        string                `json:"apiVersion"`
	Kind              string                `json:"kind"`
	WatchEvent        []Event               `json:"watchEvent"`
	OnEvent           []Event               `json:"executeHookOnEvent"`
	OnSynchronization *bool                 `json:"executeHookOnSynchronization"`
	Wait              *bool                 `json:"waitForSynchronization"`
	KeepFull          *bool                 `json:"keepFullObjectsInMemory"`
	NameSelector      namesV1               `json:"nameSelector"`
	LabelSelector     *metav1.LabelSelector `json:"labelSelector"`
	FieldSelector     struct {
		MatchExpressions []struct{ Field, Operator, Value string } `json:"matchExpressions"`
	} `json:"fieldSelector"`
	Namespace struct {
		NameSelector  namesV1               `json:"nameSelector"`
		LabelSelector *metav1.LabelSelector `json:"labelSelector"`
	} `json:"namespace"`
	JQFilter     string   `json:"jqFilter"`
	AllowFailure bool     `json:"allowFailure"`
	Include      []string `json:"includeSnapshotsFrom"`
	Queue        string   `json:"queue"`
	Group        string   `json:"group"`
}

func (f *fileV1) config(r *reader) *Config {
	c := &Config{Version: "v1", Burst: max(1, f.Settings.Burst)}
	if f.Settings.Burst < 0 {
		r.addf("settings.executionBurst", "%d is negative", f.Settings.Burst)
	}
	c.MinInterval = r.duration("settings.executionMinInterval", f.Settings.MinInterval)
	period := r.duration("settings.executionMinPeriod", f.Settings.MinPeriod)
	if f.Settings.MinInterval != "" && f.Settings.MinPeriod != "" && period != c.MinInterval {
		r.addf("settings.executionMinPeriod", "%s is another value than executionMinInterval, which means the same; remove one of them", f.Settings.MinPeriod)
	}
	c.MinInterval = cmp.Or(c.MinInterval, period)
	for i := range f.Kubernetes {
		c.Kubernetes = append(c.Kubernetes, f.Kubernetes[i].binding(r, fmt.Sprintf("kubernetes[%d]", i)))
	}
	for i, s := range f.Schedule {
		c.Schedules = append(c.Schedules, Schedule{
			common(s.Name, OnSchedule, s.Queue, s.Group, s.AllowFailure, s.Include),
			r.crontab(fmt.Sprintf("schedule[%d].crontab", i), s.Crontab),
		})
	}
	c.Validating = r.admissions(OnValidating, f.Validating)
	c.Mutating = r.admissions(OnMutating, f.Mutating)
	for i := range f.Conversion {
		c.Conversions = append(c.Conversions, f.Conversion[i].binding(r, fmt.Sprintf("%s[%d]", OnConversion, i)))
	}
	c.complete(r)
	return c
}

// complete checks the snapshots that bindings include, and adds those of their groups.
func (c *Config) complete(r *reader) {
	each := func(t Type, i int, b *Common) {
		r.includes(fmt.Sprintf("%s[%d]", t, i), c, b.Include)
		c.group(b)
	}
	for i := range c.Kubernetes {
		each(OnKubernetes, i, &c.Kubernetes[i].Common)
	}
	for i := range c.Schedules {
		each(OnSchedule, i, &c.Schedules[i].Common)
	}
	for i := range c.Validating {
		each(OnValidating, i, &c.Validating[i].Common)
	}
	for i := range c.Mutating {
		each(OnMutating, i, &c.Mutating[i].Common)
	}
	for i := range c.Conversions {
		each(OnConversion, i, &c.Conversions[i].Common)
	}
}

func (f *kubernetesV1) binding(r *reader, path string) Kubernetes {
	k := Kubernetes{
		Common:     common(f.Name, OnKubernetes, f.Queue, f.Group, f.AllowFailure, f.Include),
		APIVersion: f.APIVersion, Kind: f.Kind,
		Events: []Event{Added, Modified, Deleted},
		Filter: r.filter(path+".jqFilter", f.JQFilter), Labels: r.labels(path+".labelSelector", f.LabelSelector),
		OnSynchronization: f.OnSynchronization == nil || *f.OnSynchronization,
		KeepFull:          f.KeepFull == nil || *f.KeepFull,
		Names:             unique(f.NameSelector.MatchNames), Fields: f.fields(),
		Namespaces: unique(f.Namespace.NameSelector.MatchNames), NamespaceLabels: r.labels(path+".namespace.labelSelector", f.Namespace.LabelSelector),
	}
	// Nobody waits in a separate queue if the binding says so. In main, everything waits.
	k.Wait = f.Wait == nil || *f.Wait || k.Queue == MainQueue
	switch {
	case f.OnEvent != nil:
		k.Events = f.OnEvent
	case f.WatchEvent != nil:
		k.Events = f.WatchEvent
	}
	if f.Kind == "" {
		r.addf(path+".kind", "is empty")
	}
	if _, err := schema.ParseGroupVersion(f.APIVersion); err != nil {
		r.addf(path+".apiVersion", "%q is not <group>/<version>", f.APIVersion)
	}
	for i, e := range f.FieldSelector.MatchExpressions {
		if e.Field == "metadata.name" && len(k.Names) > 0 {
			r.addf(fmt.Sprintf("%s.fieldSelector.matchExpressions[%d].field", path, i), "metadata.name and nameSelector.matchNames exclude each other")
		}
	}
	return k
}

// fields joins the expressions of a field selector.
func (f *kubernetesV1) fields() string {
	var all []fields.Selector
	for _, e := range f.FieldSelector.MatchExpressions {
		if strings.HasPrefix(strings.ToLower(e.Operator), "not") || e.Operator == "!=" {
			all = append(all, fields.OneTermNotEqualSelector(e.Field, e.Value))
		} else {
			all = append(all, fields.OneTermEqualSelector(e.Field, e.Value))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fields.AndSelectors(all...).String()
}

// filter compiles a jq filter; no text is not a filter.
func (r *reader) filter(path, text string) *jq.Filter {
	if text == "" {
		return nil
	}
	filter, err := jq.Compile(text)
	r.add(path, err)
	return filter
}

// labels writes a selector as the API server reads it.
func (r *reader) labels(path string, s *metav1.LabelSelector) string {
	if s == nil {
		return ""
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		r.add(path, err)
		return ""
	}
	return selector.String()
}

type admissionV1 struct {
	Name            string                         `json:"name"`
	Group           string                         `json:"group"`
	Include         []string                       `json:"includeSnapshotsFrom"`
	Rules           []admission.RuleWithOperations `json:"rules"`
	FailurePolicy   *admission.FailurePolicyType   `json:"failurePolicy"`
	SideEffects     admission.SideEffectClass      `json:"sideEffects"`
	TimeoutSeconds  *int32                         `json:"timeoutSeconds"`
	MatchConditions []admission.MatchCondition     `json:"matchConditions"`
	LabelSelector   *metav1.LabelSelector          `json:"labelSelector"`
	Namespace       struct {
		LabelSelector *metav1.LabelSelector `json:"labelSelector"`
	} `json:"namespace"`
}

// defaultTimeout of a webhook, in seconds, and the longest that the API server takes.
const defaultTimeout, longestTimeout = 10, 30

func (r *reader) admissions(t Type, files []admissionV1) (all []Admission) {
	for i, f := range files {
		path := fmt.Sprintf("%s[%d]", t, i)
		a := Admission{
			Common: common(f.Name, t, "", f.Group, false, f.Include), Rules: f.Rules, FailurePolicy: f.FailurePolicy,
			SideEffects: cmp.Or(f.SideEffects, admission.SideEffectClassNone), Timeout: defaultTimeout,
			Conditions: f.MatchConditions, Labels: f.LabelSelector, NamespaceLabels: f.Namespace.LabelSelector,
		}
		for _, err := range validation.IsFullyQualifiedName(nil, f.Name) { // as the API server will
			r.add(path+".name", errors.New(err.ErrorBody()))
		}
		if f.TimeoutSeconds != nil {
			if a.Timeout = *f.TimeoutSeconds; a.Timeout < 1 || a.Timeout > longestTimeout {
				r.addf(path+".timeoutSeconds", "%d is not between 1 and %d", a.Timeout, longestTimeout)
			}
		}
		r.labels(path+".labelSelector", a.Labels)
		r.labels(path+".namespace.labelSelector", a.NamespaceLabels)
		for j := range f.Rules {
			r.rule(fmt.Sprintf("%s.rules[%d]", path, j), &f.Rules[j])
		}
		r.conditions(path+".matchConditions", f.MatchConditions)
		if j := slices.IndexFunc(all, func(b Admission) bool { return b.Name == f.Name }); j >= 0 {
			r.addf(path+".name", "%s[%d] has the name %s, too; give them different names", t, j, f.Name)
		}
		all = append(all, a)
	}
	return all
}

type conversionV1 struct {
	Name    string   `json:"name"`
	Group   string   `json:"group"`
	Include []string `json:"includeSnapshotsFrom"`
	CRD     string   `json:"crdName"`
	Steps   []Step   `json:"conversions"`
}

func (f *conversionV1) binding(r *reader, path string) Conversion {
	if f.CRD == "" {
		r.addf(path+".crdName", "is empty")
	}
	return Conversion{common(f.Name, OnConversion, "", f.Group, false, f.Include), f.CRD, f.Steps}
}

// unique drops repeated names, so that no object is watched twice. No name selects everything, as nil.
func unique(all []string) (out []string) {
	for _, name := range all {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
