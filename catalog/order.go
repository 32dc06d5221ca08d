package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// kurlOrder is the order in which kURL installs its add-ons (kURL §3.6). kURL handles kubernetes separately; here it comes
// after the container runtime. kURL runs aws again after longhorn; Sealift runs it once.
func kurlOrder() []string {
	return []string{"containerd", "kubernetes", "aws", "nodeless", "calico", "weave", "flannel", "antrea", "rook", "ekco",
		"openebs", "longhorn", "minio", "contour", "registry", "prometheus", "kotsadm", "velero", "fluentd", "collectd",
		"cert-manager", "metrics-server", "sonobuoy", "goldpinger"}
}

// The capabilities of kURL's add-ons. Other add-ons can require a capability instead of a certain add-on.
const (
	ContainerRuntime = "container-runtime"
	PodNetwork       = "pod-network"
	PodNetworkIPv6   = "pod-network-ipv6"
	PodNetworkDual   = "pod-network-dual-stack"
	Storage          = "storage"
	ObjectStore      = "object-store"
	Ingress          = "ingress"
)

// Capabilities returns the declared capabilities, or those of kURL's add-on of this name.
func (m Meta) Capabilities() []string {
	if m.Declared {
		return m.Provides
	}
	return kurlProvides(m.Name)
}

// kurlProvides returns the capabilities of an add-on that does not declare its own.
func kurlProvides(name string) []string {
	switch name {
	case "containerd", "docker":
		return []string{ContainerRuntime}
	case "antrea":
		return []string{PodNetwork, PodNetworkIPv6}
	case "calico", "weave", "flannel":
		return []string{PodNetwork}
	case "rook":
		return []string{Storage, ObjectStore}
	case "openebs", "longhorn", "aws":
		return []string{Storage}
	case "minio":
		return []string{ObjectStore}
	case "contour":
		return []string{Ingress}
	}
	return nil
}

// Order returns the names of addons in install order. Everything in requires or after comes first. Otherwise kURL's order
// decides, then the name, so the result does not depend on the order of addons. An add-on without a declaration comes after
// all add-ons that precede it in kURL's order, unless those declare that they need it. An add-on that kURL does not know comes
// last.
//
// The error names every missing requirement, or a cycle.
func Order(addons []Meta) ([]string, error) {
	g, err := newGraph(addons)
	if err != nil {
		return nil, err
	}
	return g.sorted(), nil
}

// Needed returns the names of the add-ons that another add-on requires or comes after. It fails as Order does.
func Needed(addons []Meta) (map[string]bool, error) {
	g, err := newGraph(addons)
	if err != nil {
		return nil, err
	}
	needed := make(map[string]bool)
	for _, edges := range g.before {
		for _, e := range edges {
			needed[e.name] = true
		}
	}
	return needed, nil
}

// Circle describes add-ons that wait for each other, such as "a requires b, b comes after a", or returns "" if none do. What they
// require may be missing.
func Circle(addons []Meta) (string, error) {
	g, err := newNodes(addons)
	if err != nil {
		return "", err
	}
	_ = g.declared() // its error names the missing ones
	return g.circle(), nil
}

// graph has an edge for each pair in which one add-on must precede the other.
type graph struct {
	addons    []Meta              // by rank
	providers map[string][]string // names of the providers of a name or capability
	before    map[string][]edge   // edges to the add-ons that must precede a name
}

type edge struct {
	name string
	why  string // such as "requires pod-network", for the description of a cycle
}

// newGraph returns the graph with all edges. It fails if there is a cycle.
func newGraph(addons []Meta) (*graph, error) {
	g, err := newNodes(addons)
	if err != nil {
		return nil, err
	}
	if err := g.declared(); err != nil {
		return nil, err
	}
	if circle := g.circle(); circle != "" {
		return nil, fmt.Errorf("add-ons wait for each other in a circle: %s; remove one of these relations from its addon.yaml", circle)
	}
	g.modules()
	g.defaults()
	return g, nil
}

// newNodes records the providers of each name and capability.
func newNodes(addons []Meta) (*graph, error) {
	g := &graph{addons: slices.Clone(addons), providers: map[string][]string{}, before: map[string][]edge{}}
	slices.SortStableFunc(g.addons, func(a, b Meta) int {
		return cmp.Or(cmp.Compare(rank(a.Name), rank(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	for i, a := range g.addons {
		if i > 0 && g.addons[i-1].Name == a.Name {
			return nil, fmt.Errorf("add-on %s is listed in two versions, %s and %s; keep one", a.Name, g.addons[i-1].Version, a.Version)
		}
		for _, capability := range append([]string{a.Name}, a.Capabilities()...) {
			if !slices.Contains(g.providers[capability], a.Name) {
				g.providers[capability] = append(g.providers[capability], a.Name)
			}
		}
	}
	return g, nil
}

func rank(name string) int {
	order := kurlOrder()
	if at := slices.Index(order, name); at >= 0 {
		return at
	}
	return len(order)
}

// declared adds the edges that add-ons declare.
func (g *graph) declared() error {
	var missing []error
	for _, a := range g.addons {
		for _, need := range a.Requires {
			if len(g.providers[need]) == 0 {
				missing = append(missing, fmt.Errorf("add-on %s requires %s, but no add-on here has that name or provides it; add one to the Installer", a.Name, need))
			}
			g.edges(a.Name, need, "requires "+need)
		}
		for _, earlier := range a.After {
			g.edges(a.Name, earlier, "comes after "+earlier)
		}
	}
	return errors.Join(missing...)
}

func (g *graph) edges(name, need, why string) {
	for _, provider := range g.providers[need] {
		if provider != name {
			g.before[name] = append(g.before[name], edge{provider, why})
		}
	}
}

// modules orders the operator of modules after them, and other add-ons that wait for a module after that operator. A declaration
// that says otherwise wins.
func (g *graph) modules() {
	for _, operator := range g.providers[ModuleOperator] {
		var others []string
		for _, a := range g.addons {
			switch {
			case a.Module && !g.needs(a.Name, operator, map[string]bool{}):
				g.before[operator] = append(g.before[operator], edge{name: a.Name})
			case a.Name != operator && slices.ContainsFunc(g.before[a.Name], func(e edge) bool { return g.isModule(e.name) }):
				others = append(others, a.Name)
			}
		}
		for _, name := range others {
			if !g.needs(operator, name, map[string]bool{}) {
				g.before[name] = append(g.before[name], edge{name: operator})
			}
		}
	}
}

func (g *graph) isModule(name string) bool {
	return slices.ContainsFunc(g.addons, func(a Meta) bool { return a.Name == name && a.Module })
}

// defaults puts each add-on without a declaration after those that precede it in kURL's order, unless a declaration says
// otherwise.
func (g *graph) defaults() {
	for i, a := range g.addons {
		if a.Declared {
			continue
		}
		for _, earlier := range g.addons[:i] {
			if rank(earlier.Name) < rank(a.Name) && !g.needs(earlier.Name, a.Name, map[string]bool{}) {
				g.before[a.Name] = append(g.before[a.Name], edge{name: earlier.Name})
			}
		}
	}
}

// needs reports whether name comes after other, directly or not.
func (g *graph) needs(name, other string, seen map[string]bool) bool {
	if seen[name] {
		return false
	}
	seen[name] = true
	return slices.ContainsFunc(g.before[name], func(e edge) bool {
		return e.name == other || g.needs(e.name, other, seen)
	})
}

// circle describes one cycle, such as "a requires b, b comes after a", or returns "" if there is none.
func (g *graph) circle() string {
	done := map[string]bool{}
	for _, a := range g.addons {
		if steps := g.walk(a.Name, nil, done); steps != "" {
			return steps
		}
	}
	return ""
}

// step is one edge of the current path.
type step struct{ from, why, to string }

func (g *graph) walk(name string, path []step, done map[string]bool) string {
	if start := slices.IndexFunc(path, func(s step) bool { return s.from == name }); start >= 0 {
		var words []string
		for _, s := range path[start:] {
			text := s.from + " " + s.why
			if !strings.HasSuffix(s.why, " "+s.to) {
				text += " (provided by " + s.to + ")"
			}
			words = append(words, text)
		}
		return strings.Join(words, ", ")
	}
	if done[name] {
		return ""
	}
	for _, e := range g.before[name] {
		if found := g.walk(e.name, append(slices.Clone(path), step{name, e.why, e.name}), done); found != "" {
			return found
		}
	}
	done[name] = true
	return ""
}

// sorted returns the names in dependency order. If several could be next, the one with the lowest rank is.
func (g *graph) sorted() []string {
	names := make([]string, 0, len(g.addons))
	for len(names) < len(g.addons) {
		next := slices.IndexFunc(g.addons, func(a Meta) bool {
			return !slices.Contains(names, a.Name) && !slices.ContainsFunc(g.before[a.Name], func(e edge) bool {
				return !slices.Contains(names, e.name)
			})
		})
		names = append(names, g.addons[next].Name)
	}
	return names
}
