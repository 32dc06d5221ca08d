package binding

import (
	"bytes"
	"encoding/json"
	"maps"
)

// Moment is the event of a kubernetes binding.
type Moment string

// A kubernetes binding runs its hook once with everything that exists, and then with single events.
const (
	Synchronization Moment = "Synchronization"
	OneEvent        Moment = "Event"
)

// Object is one object as its binding sees it. Its JSON has the keys object and filterResult, each only if there is one.
type Object struct {
	Kind, Namespace, Name string
	// Full is the object as JSON, or nil if the binding does not keep it.
	Full json.RawMessage
	// Result is the output of the jq filter for the object, as JSON, or nil without a filter.
	Result json.RawMessage
}

// MarshalJSON writes the object as hooks read it.
func (o Object) MarshalJSON() ([]byte, error) { return encode(o.fields()) }

func (o Object) fields() map[string]any {
	fields := map[string]any{}
	if o.Full != nil {
		fields["object"] = o.Full
	}
	if o.Result != nil {
		fields["filterResult"] = o.Result
	}
	return fields
}

// Context says why a hook runs. The zero values of the fields that a type does not have are right for it.
type Context struct {
	Type    Type
	Binding string // the name of the binding
	Group   string
	// Include names the bindings whose objects the hook gets as snapshots.
	Include []string
	// IncludeAll gives the hook a key snapshots even without a binding to include: beforeAll and similar ones (S-8).
	IncludeAll bool
	Snapshots  map[string][]Object

	// Index is the index of a kubernetes binding in its configuration, because names may repeat.
	Index  int
	Moment Moment
	// Late marks a synchronization that happened when the kind appeared, after the start of the hook.
	Late    bool
	Event   Event
	Objects []Object // all of them for a synchronization, one for an event

	Review                 json.RawMessage // of a webhook
	FromVersion, ToVersion string          // of a conversion
}

// Encode writes the content of $BINDING_CONTEXT_PATH for a hook of a version.
func Encode(version string, contexts []Context) ([]byte, error) {
	all := make([]map[string]any, len(contexts))
	for i := range contexts {
		if version == "v0" {
			all[i] = contexts[i].v0()
		} else {
			all[i] = contexts[i].v1()
		}
	}
	return encode(all)
}

// encode is json.Marshal without HTML escapes, which are useless here.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

func (c *Context) v1() map[string]any {
	fields := map[string]any{"binding": c.Binding}
	if c.Type == OnStartup {
		return fields
	}
	if c.IncludeAll || len(c.Include) > 0 {
		fields["snapshots"] = c.snapshots()
	}
	switch {
	case c.Type == OnValidating, c.Type == OnMutating:
		fields["type"], fields["review"] = "Validating", c.Review
		if c.Type == OnMutating {
			fields["type"] = "Mutating"
		}
	case c.Type == OnConversion:
		fields["type"], fields["review"] = "Conversion", c.Review
		fields["fromVersion"], fields["toVersion"] = c.FromVersion, c.ToVersion
	case c.Group != "":
		fields["type"], fields["groupName"] = "Group", c.Group
	case c.Type == OnSchedule:
		fields["type"] = "Schedule"
	case c.Type == OnKubernetes:
		c.kubernetes(fields)
	}
	return fields
}

func (c *Context) kubernetes(fields map[string]any) {
	fields["type"] = c.Moment
	if c.Moment == Synchronization {
		fields["objects"] = list(c.Objects)
		return
	}
	fields["watchEvent"] = c.Event
	for _, o := range c.Objects[:min(1, len(c.Objects))] {
		maps.Copy(fields, o.fields())
	}
}

// snapshots has a list, which may be empty, for each binding that is included.
func (c *Context) snapshots() map[string][]Object {
	all := make(map[string][]Object, len(c.Include))
	for _, name := range c.Include {
		all[name] = list(c.Snapshots[name])
	}
	return all
}

// list writes no objects as [].
func list(objects []Object) []Object {
	if objects == nil {
		return []Object{}
	}
	return objects
}

func (c *Context) v0() map[string]any {
	fields := map[string]any{"binding": c.Binding}
	if c.Type != OnKubernetes {
		return fields
	}
	fields["resourceEvent"] = ""
	for name, event := range eventsV0 {
		if event == c.Event {
			fields["resourceEvent"] = name
		}
	}
	for _, o := range c.Objects[:min(1, len(c.Objects))] {
		fields["resourceNamespace"], fields["resourceKind"], fields["resourceName"] = o.Namespace, o.Kind, o.Name
	}
	return fields
}
