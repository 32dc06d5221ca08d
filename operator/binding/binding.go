// Package binding reads a hook's output for --config, and writes the file at $BINDING_CONTEXT_PATH.
//
// A Config says when a hook runs: its bindings with every default filled in, so that no other package has to know defaults. A
// Context says why it runs now. Both exist in two versions: hooks without configVersion have version v0, which keeps its own
// names. The package runs nothing and knows no cluster.
//
// The sources of its rules are S-2 to S-10, S-15 and S-16.
package binding

import (
	"maps"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/operator/jq"
)

// Type is a kind of binding, by its key in a configuration.
type Type string

// The bindings of all hooks, then those of global hooks, of module hooks, and the webhooks.
const (
	OnStartup        Type = "onStartup"
	OnSchedule       Type = "schedule"
	OnKubernetes     Type = "kubernetes"
	BeforeAll        Type = "beforeAll"
	AfterAll         Type = "afterAll"
	BeforeHelm       Type = "beforeHelm"
	AfterHelm        Type = "afterHelm"
	BeforeDeleteHelm Type = "beforeDeleteHelm"
	AfterDeleteHelm  Type = "afterDeleteHelm"
	OnValidating     Type = "kubernetesValidating"
	OnMutating       Type = "kubernetesMutating"
	OnConversion     Type = "kubernetesCustomResourceConversion"
)

// Scope is the location of a hook, which decides the bindings that it may have.
type Scope int

// The hooks of shell mode, global hooks, and hooks of a module.
const (
	Shell Scope = iota
	Global
	Module
)

// ordered are the bindings of each scope whose value is an order.
var ordered = map[Scope][]Type{
	Shell:  {OnStartup},
	Global: {OnStartup, BeforeAll, AfterAll},
	Module: {OnStartup, BeforeHelm, AfterHelm, BeforeDeleteHelm, AfterDeleteHelm},
}

// MainQueue is the queue of bindings that name none.
const MainQueue = "main"

// Config says when a hook runs.
type Config struct {
	Version string // "v0" or "v1"
	// Warnings name keys that are given twice. The last one counts.
	Warnings []string
	// MinInterval and Burst limit how often the hook runs. A MinInterval of 0 is not a limit.
	MinInterval time.Duration
	Burst       int
	// Orders holds the bindings whose value is an order, such as onStartup. Smaller numbers run first.
	Orders      map[Type]float64
	Schedules   []Schedule
	Kubernetes  []Kubernetes
	Validating  []Admission
	Mutating    []Admission
	Conversions []Conversion
}

// Common has the fields that several kinds of binding share.
type Common struct {
	Name         string // of the binding; the default is the kind of binding
	Queue        string
	Group        string
	AllowFailure bool
	// Include names the kubernetes bindings whose objects the hook gets as snapshots. Those of its group are among them.
	Include []string
}

// Schedule runs a hook at times.
type Schedule struct {
	Common
	Crontab string
}

// Kubernetes runs a hook when objects change.
type Kubernetes struct {
	Common
	APIVersion        string // "" means any that has the kind
	Kind              string // a kind in any case, a plural, a singular or a short name
	Events            []Event
	OnSynchronization bool // the hook runs with all objects before it gets events
	Wait              bool // hooks after the synchronization of all hooks wait for this one
	KeepFull          bool // the hook gets objects, not only the results of Filter
	Filter            *jq.Filter
	Names             []string // of objects; nil means all
	Labels            string   // selector; "" means all
	Fields            string   // selector; "" means all
	Namespaces        []string // nil means all
	NamespaceLabels   string   // selector of namespaces; "" means all
}

// Event is a change of an object.
type Event string

// The events of a kubernetes binding.
const (
	Added    Event = "Added"
	Modified Event = "Modified"
	Deleted  Event = "Deleted"
)

// Admission lets a hook allow, refuse or change writes to the API server.
type Admission struct {
	Common
	Rules           []admission.RuleWithOperations
	FailurePolicy   *admission.FailurePolicyType // nil means the operator's default
	SideEffects     admission.SideEffectClass
	Timeout         int32 // seconds
	Conditions      []admission.MatchCondition
	Labels          *metav1.LabelSelector
	NamespaceLabels *metav1.LabelSelector
}

// Conversion lets a hook convert custom resources between versions.
type Conversion struct {
	Common
	CRD   string
	Steps []Step
}

// Step is a conversion that a hook can do. A version may have its group before it.
type Step struct {
	From string `json:"fromVersion"`
	To   string `json:"toVersion"`
}

// Counts returns how many bindings of each kind there are, without the kinds that have none.
func (c *Config) Counts() map[Type]int {
	all := map[Type]int{
		OnSchedule: len(c.Schedules), OnKubernetes: len(c.Kubernetes),
		OnValidating: len(c.Validating), OnMutating: len(c.Mutating), OnConversion: len(c.Conversions),
	}
	for t := range c.Orders {
		all[t] = 1
	}
	maps.DeleteFunc(all, func(_ Type, n int) bool { return n == 0 })
	return all
}

// kubernetesOf returns the kubernetes bindings of a name.
func (c *Config) kubernetesOf(name string) (found int) {
	for i := range c.Kubernetes {
		if c.Kubernetes[i].Name == name {
			found++
		}
	}
	return found
}

// KubernetesNames returns the names of all kubernetes bindings in their order.
func (c *Config) KubernetesNames() []string {
	names := make([]string, len(c.Kubernetes))
	for i := range c.Kubernetes {
		names[i] = c.Kubernetes[i].Name
	}
	return names
}
