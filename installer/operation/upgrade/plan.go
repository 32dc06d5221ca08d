package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/internal/plaintext"
)

// Plan is what an upgrade would do.
type Plan struct {
	From    string           `json:"from"` // versions of Kubernetes
	To      string           `json:"to"`
	Stops   []string         `json:"stops"` // intermediate versions of Kubernetes; all nodes reach one before any continues
	Changes []install.Change `json:"changes"`
	Nodes   []PlannedNode    `json:"nodes"` // in the order in which they begin
	// Bytes is the most that each node fetches: the content that the previous bundle did not have.
	Bytes uint64 `json:"bytes"`
	// Agents are the nodes whose agents check no signature, being of an earlier sealift. They are replaced.
	Agents []string `json:"agents,omitempty"`
	// Resumes means that this upgrade was begun before.
	Resumes bool `json:"resumes"`
}

// PlannedNode is the plan for one node.
type PlannedNode struct {
	Name    string `json:"name"`
	Role    string `json:"role"`
	Version string `json:"version"` // of its kubelet now
	// Drained means that its pods move to other nodes first.
	Drained bool `json:"drained"`
}

// Plan compares the bundle with what the cluster runs.
func (c *Cluster) Plan(in *install.Install) Plan {
	stops, _ := Stops(in)
	p := Plan{From: in.From(), To: in.Version(), Stops: append([]string{}, stops...), Changes: in.Changes(), Bytes: in.Brings().Bytes(), Nodes: []PlannedNode{}, Agents: c.unsigned(), Resumes: c.begun != nil}
	stay := c.podsStay(in)
	for _, n := range operation.InOrder(c.nodes, c.own) {
		role := "worker"
		if n.ControlPlane() {
			role = "control plane"
		}
		p.Nodes = append(p.Nodes, PlannedNode{Name: n.Name, Role: role, Version: strings.TrimPrefix(n.Version, "v"), Drained: !stay && !unchanged(n, p.Changes, p.To)})
	}
	return p
}

// unsigned lists the nodes whose agents check no signature.
func (c *Cluster) unsigned() (names []string) {
	for _, n := range operation.InOrder(c.nodes, c.own) {
		if h := c.described[n.Name]; !h.Time.IsZero() && !h.Signed {
			names = append(names, n.Name)
		}
	}
	return names
}

// Empty reports whether nothing has to be done.
func (p Plan) Empty() bool {
	return len(p.Changes) == 0 && len(p.Agents) == 0 && !p.Resumes && !slices.ContainsFunc(p.Nodes, func(n PlannedNode) bool { return isOlder(n.Version, p.To) })
}

// isOlder reports that a node runs an earlier version than the bundle has, such as one that joined while an upgrade began.
func isOlder(version, to string) bool {
	return version != "" && catalog.CompareVersions(strings.TrimPrefix(version, "v"), to) < 0
}

// unchanged reports that a node has what the upgrade brings: that is then for other nodes, which joined while an earlier run began.
func unchanged(n cluster.Node, changes []install.Change, to string) bool {
	return len(changes) == 0 && n.Version == "v"+to
}

// String writes the plan for people.
func (p Plan) String() string {
	var b strings.Builder
	if p.Resumes {
		b.WriteString("this goes on with an upgrade that was begun before\n")
	}
	way := slices.Concat([]string{p.From}, p.Stops, []string{p.To})
	fmt.Fprintf(&b, "Kubernetes %s, at most %s for each node\n", strings.Join(way, " -> "), plaintext.Bytes(p.Bytes))
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	if len(p.Agents) > 0 {
		fmt.Fprintf(&b, "  agents of an earlier sealift are replaced, and then carry out only what a control plane has signed: %s\n", strings.Join(p.Agents, ", "))
	}
	b.WriteString("nodes, in this order:\n")
	for n, of := range p.Nodes {
		drained := "its pods stay"
		if of.Drained {
			drained = "its pods move to other nodes"
		}
		fmt.Fprintf(&b, "  %d. %s (%s, %s): %s\n", n+1, of.Name, of.Role, of.Version, drained)
	}
	return b.String()
}
