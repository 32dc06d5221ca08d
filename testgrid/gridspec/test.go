package gridspec

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/strictyaml"
	"github.com/sealift/sealift/spec"
)

// What kURL's runner takes when a test does not say (kURL §7.1).
const (
	defaultCPU    = 4
	defaultMemory = 16 << 30
)

// The limits of a test. A higher value is a typo.
const (
	maxNodes = 100
	maxCPU   = 1024
)

var (
	systemID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	// stepID matches the IDs of steps in a journal.
	stepID = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*(/[a-z0-9][a-z0-9.-]*)+$`)
)

// testKeys returns the keys of a test: kURL's, then ours.
func testKeys() []string {
	return []string{"name", "installerSpec", "upgradeSpec", "flags", "airgap", "cpu", "memory", "numPrimaryNodes", "numSecondaryNodes", "unsupportedOSIDs",
		"preInstallScript", "postInstallScript", "preUpgradeScript", "postUpgradeScript", "supportbundleSpec", "installerApiEndpoint", "upgradeApiEndpoint",
		"join", "kill", "powerCut", "cutNetwork", "clock", "expect", "reset"}
}

func (p *parser) test(n *yaml.Node) Test {
	p.fill(n)
	t := Test{Pos: p.Pos(n), CPU: defaultCPU, Memory: defaultMemory}
	f := fields{p, p.Fields(n, "a test", testKeys()...)}
	maps.DeleteFunc(f.nodes, unset)
	f.text("name", &t.Name)
	f.text("flags", &t.Flags)
	f.boolean("airgap", &t.Airgap)
	f.number("cpu", &t.CPU, 1, maxCPU)
	f.size("memory", &t.Memory)
	f.text("preInstallScript", &t.PreInstall)
	f.text("postInstallScript", &t.PostInstall)
	f.text("preUpgradeScript", &t.PreUpgrade)
	f.text("postUpgradeScript", &t.PostUpgrade)
	f.text("installerApiEndpoint", &t.InstallEndpoint)
	f.text("upgradeApiEndpoint", &t.UpgradeEndpoint)
	for _, id := range f.list("unsupportedOSIDs") {
		if text := p.Text(id, "the ID of a system"); id.Kind == yaml.ScalarNode && !systemID.MatchString(text) {
			p.Errorf(p.Pos(id), "such as ubuntu-2404", "bad ID %q of a system", text)
		} else {
			t.UnsupportedOSIDs = append(t.UnsupportedOSIDs, text)
		}
	}
	if bundle := f.nodes["supportbundleSpec"]; bundle != nil {
		t.SupportBundle = p.document(bundle)
	}
	t.Install, t.Upgrade = p.installer(f.nodes["installerSpec"]), p.installer(f.nodes["upgradeSpec"])
	if t.Install == nil {
		p.Errorf(t.Pos, "write installerSpec: {kubernetes: {version: …}, …}", "the test has no installerSpec")
	}
	p.joins(f, &t)
	t.Kills = p.faults(f, "kill", t.Nodes(), "signal")
	t.PowerCuts = p.faults(f, "powerCut", t.Nodes())
	t.CutNetwork = p.faults(f, "cutNetwork", t.Nodes(), "lasts")
	p.clocks(f, &t)
	for _, n := range f.list("expect") {
		t.Expect = append(t.Expect, p.expectation(n, t.Nodes()))
	}
	if n := f.nodes["reset"]; n != nil {
		if text := p.Text(n, "reset"); n.Kind == yaml.ScalarNode && text != "clean" {
			p.Errorf(p.Pos(n), "write reset: clean, or leave it out", "unknown reset %q", text)
		}
		t.Reset = true
	}
	p.idle(f, t)
	return t
}

// unset reports whether a key of a test has the value that kURL's runner takes for none.
func unset(key string, n *yaml.Node) bool {
	return n.ShortTag() == "!!null" || n.Kind == yaml.ScalarNode && n.Value == "" && (key == "cpu" || key == "memory")
}

// idle reports what would never be looked at, because the test has no such part. kURL's tests may have scripts of that kind.
func (p *parser) idle(f fields, t Test) {
	has := map[string]bool{"install": true, "": true, "join": len(t.Joins) > 0, "upgrade": f.nodes["upgradeSpec"] != nil, "reset": t.Reset}
	for _, e := range t.Expect {
		if e.Took != nil && !has[e.Took.Part] {
			p.Errorf(e.Pos, "leave it out", "the test has no %s that could take too long", e.Took.Part)
		}
	}
	for _, key := range []string{"preUpgradeScript", "postUpgradeScript"} {
		if n := f.nodes[key]; n != nil && n.Value != "" && !has["upgrade"] {
			p.Warnf(p.Pos(n), "write upgradeSpec", "%s never runs: the test has no upgrade", key)
		}
	}
}

// installer reads the spec of an Installer.
func (p *parser) installer(n *yaml.Node) *spec.Installer {
	if n == nil {
		return nil
	}
	if len(n.Content) == 0 {
		p.Errorf(p.Pos(n), "name at least one add-on, such as kubernetes: {version: 1.36.3}", "the spec is empty")
		return &spec.Installer{}
	}
	return spec.ReadSpec(&p.Reader, n)
}

// document returns a YAML document that is nested in the file: as text, or as a mapping.
func (p *parser) document(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode {
		return p.Text(n, "supportbundleSpec")
	}
	text, err := kyaml.Marshal(strictyaml.Value(n))
	if err != nil {
		p.Errorf(p.Pos(n), "", "supportbundleSpec: %v", err)
	}
	return string(text)
}

// joins reads the two ways to add nodes: kURL's numbers, and a list.
func (p *parser) joins(f fields, t *Test) {
	primaries, secondaries := 1, 0 // kURL's runner writes 0 primaries for the default
	f.number("numPrimaryNodes", &primaries, 0, maxNodes)
	f.number("numSecondaryNodes", &secondaries, 0, maxNodes)
	t.Joins = append(slices.Repeat([]Join{{Role: ControlPlane}}, max(primaries-1, 0)), slices.Repeat([]Join{{Role: Worker}}, secondaries)...)
	for _, n := range f.list("join") {
		if !p.IsMapping(n, "a join") {
			continue
		}
		j := Join{Role: Worker}
		of := fields{p, p.Fields(n, "a join", "role", "flags")}
		of.oneOf("role", &j.Role, Worker, ControlPlane)
		of.text("flags", &j.Flags)
		t.Joins = append(t.Joins, j)
	}
	if len(t.Joins) == 0 {
		t.Joins = nil
	}
}

func (p *parser) faults(f fields, key string, nodes int, more ...string) (all []Fault) {
	for _, n := range f.list(key) {
		if !p.IsMapping(n, "an entry of "+key) {
			continue
		}
		fault := Fault{Node: 1}
		of := fields{p, p.Fields(n, key, append([]string{"node", "step", "after", "during"}, more...)...)}
		of.number("node", &fault.Node, 1, nodes)
		of.text("step", &fault.Step)
		of.duration("after", &fault.After)
		during := ""
		of.oneOf("during", &during, "upgrade")
		if fault.Upgrade = during == "upgrade"; fault.Upgrade && f.nodes["upgradeSpec"] == nil {
			p.Errorf(p.Pos(of.nodes["during"]), "write upgradeSpec, or leave it out", "the test has no upgrade")
		}
		if fault.Upgrade && fault.Node != 1 {
			p.Errorf(p.Pos(of.nodes["node"]), "write node: 1", "the upgrade is a command on node 1; nothing can befall node %d then", fault.Node)
		}
		if strings.HasPrefix(fault.Step, "reset/") && f.nodes["reset"] == nil {
			p.Errorf(p.Pos(of.nodes["step"]), "write reset: clean", "the test has no reset")
		}
		if slices.Contains(more, "signal") {
			fault.Signal = "KILL"
			of.oneOf("signal", &fault.Signal, "KILL", "TERM", "INT")
		}
		if slices.Contains(more, "lasts") {
			of.duration("lasts", &fault.Lasts)
			if fault.Lasts <= 0 {
				p.Errorf(p.Pos(n), "write lasts: 30s", "%s does not say how long the cut lasts", key)
			}
		}
		if !stepID.MatchString(fault.Step) {
			p.Errorf(p.Pos(or(of.nodes["step"], n)), "'sealift journal' lists steps, such as containerd/install", "%s needs the ID of a step, not %q", key, fault.Step)
		}
		all = append(all, fault)
	}
	return all
}

func (p *parser) clocks(f fields, t *Test) {
	for _, n := range f.list("clock") {
		if !p.IsMapping(n, "an entry of clock") {
			continue
		}
		c := Clock{Node: 1}
		of := fields{p, p.Fields(n, "clock", "node", "offset")}
		of.number("node", &c.Node, 1, t.Nodes())
		of.signedDuration("offset", &c.Offset)
		if c.Offset == 0 {
			p.Errorf(p.Pos(n), "write offset: -1h", "clock does not say by how much the clock is wrong")
		}
		t.Clocks = append(t.Clocks, c)
	}
}
