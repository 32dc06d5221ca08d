package channel

import "fmt"

// Action is the planned action for an add-on.
type Action string

// The actions. Issue makes the keys of an add-on that is otherwise up to date. Adopt takes over the installer's add-on, and
// updates it to the version of the channel. Conflict is an add-on with another owner.
const (
	Install  Action = "install"
	Update   Action = "update"
	Adopt    Action = "adopt"
	Issue    Action = "issue"
	Keep     Action = "keep"
	Conflict Action = "conflict"
)

// Decision is the action for one entry of a channel on one cluster, with its reason.
type Decision struct {
	Action    Action  `json:"action"`
	Reason    string  `json:"reason"`
	Installed *Record `json:"installed,omitempty"`
	From      string  `json:"from,omitempty"` // the owner, if it is not a channel
	// PKI means that the keys of the add-on are missing and will be created.
	PKI   bool  `json:"pki,omitempty"`
	Entry Entry `json:"entry"`
}

// Skipped is an entry that does not apply to this cluster.
type Skipped struct {
	Reason  string `json:"reason"`
	Warning bool   `json:"warning,omitempty"` // for the author of the index
	Entry   Entry  `json:"entry"`
}

// Plan is every decision about every entry.
type Plan struct {
	KubernetesVersion string     `json:"kubernetesVersion"`
	Addons            []Decision `json:"addons"`  // in the order of the channels
	Skipped           []Skipped  `json:"skipped"` // in the order of the channels
	Moves             []Move     `json:"moves,omitempty"`
}

// Updates are the decisions that change something.
func (p Plan) Updates() []Decision {
	var updates []Decision
	for _, d := range p.Addons {
		if d.Action != Keep {
			updates = append(updates, d)
		}
	}
	return updates
}

// NewPlan decides what the entries of some channels, in their order, mean for a cluster with this version and these records. It
// makes no requests. The add-ons of adopt are adopted again although they were released.
func NewPlan(entries []Entry, gitVersion string, records []Installed, adopt ...string) (Plan, error) {
	server, err := serverVersion(gitVersion)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{KubernetesVersion: gitVersion, Addons: []Decision{}, Skipped: []Skipped{}}
	var selected []Entry
	places := map[string]int{} // of the names in selected
	for _, e := range entries {
		in, err := matches(e.KubernetesVersion, server)
		switch {
		case err != nil:
			plan.skip(e, fmt.Sprintf("its kubernetesVersion %q is not a range: %v", e.KubernetesVersion, err), true)
			continue
		case !in:
			plan.skip(e, fmt.Sprintf("Kubernetes %s is not in %q", server, e.KubernetesVersion), false)
			continue
		}
		i, before := places[e.Name]
		if !before {
			places[e.Name] = len(selected)
			selected = append(selected, e)
			continue
		}
		replace, why := selected[i].record().ReplacedBy(e.record())
		if !replace {
			plan.skip(e, "an entry before it is preferred: "+why, false)
			continue
		}
		plan.skip(selected[i], "an entry after it is preferred: "+why, false)
		selected[i] = e
	}
	known, others := make(map[string]Record, len(records)), map[string]Installed{}
	for _, r := range records {
		if r.Owner != "" {
			others[r.Namespace+":"+r.Name] = r
		} else {
			known[r.Namespace+":"+r.Name] = r.Record
		}
	}
	for _, e := range selected {
		d := decide(e, known)
		other, owned := others[e.Namespace+":"+e.Name] // its adoption has begun
		if !owned {
			other, owned = others[":"+e.Name]
		}
		if owned {
			d = adoption(e, other, adopt)
		}
		plan.Addons = append(plan.Addons, d)
	}
	return plan, nil
}

func (p *Plan) skip(e Entry, reason string, warning bool) {
	p.Skipped = append(p.Skipped, Skipped{Entry: e, Reason: reason, Warning: warning})
}

// decide compares an entry with the record of its name in its namespace; other namespaces do not count (K-19).
func decide(e Entry, known map[string]Record) Decision {
	d := Decision{Entry: e, Action: Install, Reason: "it is not installed"}
	before, ok := known[e.Namespace+":"+e.Name]
	if !ok {
		return d
	}
	d.Action, d.Installed = Keep, &before
	var replace bool
	if replace, d.Reason = before.ReplacedBy(e.record()); replace {
		d.Action = Update
	}
	return d
}
