package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/firewall"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

// preflightFile is an add-on's host checks for Troubleshoot.
const preflightFile = "host-preflight.yaml"

// PreflightOptions select the checks, and how their results are handled. The zero value is for the host that makes a cluster.
type PreflightOptions struct {
	Node           preflight.Node // role of the host for checks; a node that joins nothing has a control plane
	Policy         preflight.Policy
	ExcludeBuiltin bool // as in kURL, this leaves out the checks of add-ons too
	Runs           Running
}

// with adds the Installer's settings (kURL §2.1): a flag and an option mean the same.
func (o PreflightOptions) with(s *spec.Installer) PreflightOptions {
	kurl := s.Section("kurl").Options
	o.Policy.Ignore = o.Policy.Ignore || isTrue(kurl, "hostPreflightIgnore")
	o.Policy.EnforceWarnings = o.Policy.EnforceWarnings || isTrue(kurl, "hostPreflightEnforceWarnings")
	o.ExcludeBuiltin = o.ExcludeBuiltin || isTrue(kurl, "excludeBuiltinHostPreflights")
	o.Node.Primary = o.Node.Primary || !o.Node.Join
	return o
}

// completed adds the Installer's settings, and whether there is an air gap.
func (j *job) completed(o PreflightOptions) PreflightOptions {
	o = o.with(j.spec)
	o.Node.AirGap = j.settings.airGap
	return o
}

// Preflight checks the host and changes nothing. A local bundle is verified meanwhile; its result has a fixed place in the report.
func (i *Install) Preflight(ctx context.Context, o PreflightOptions) (preflight.Record, error) {
	o = i.completed(o)
	h, err := preflight.ThisHost(i.facts.Target())
	if err != nil {
		return preflight.Record{}, err
	}
	h.Chains = firewall.Chains
	needs, err := i.needs()
	if err != nil {
		return preflight.Record{}, err
	}
	bundled, release := i.verification(ctx)
	defer release()
	addRole(&needs, o.Node, i.spec)
	if !balancer.Serves(i.settings.endpoint) || i.Journal.Began(node.BalancerStep) {
		// nothing of this install will listen there, or does already
		needs.Ports = slices.DeleteFunc(needs.Ports, func(port int) bool { return port == balancer.Port })
	}
	checks, err := i.checks(h, needs, o)
	if err != nil {
		return preflight.Record{}, err
	}
	var specs []preflight.Specification
	var failed []preflight.Result
	if !o.ExcludeBuiltin {
		if specs, failed, err = i.preflights(ctx, o.Runs); err != nil {
			return preflight.Record{}, err
		}
		if len(specs) == 0 && len(i.askedAddOns()) == 0 {
			checks = append(checks, preflight.Check{Name: "add-ons", Probe: func(_ context.Context, r *preflight.Reporter) { r.Passf("none of them has checks of its own") }})
		}
	}
	own, left, err := o.ownChecks(i.spec)
	if err != nil {
		return preflight.Record{}, err
	}
	report, err := preflight.Run(ctx, checks)
	if err != nil {
		return preflight.Record{}, err
	}
	// A resumed install finds what it has started itself, as an upgrade does.
	node := o.Node
	node.Upgrade = node.Upgrade || needs.Resumed
	asked, failure := i.external(ctx, node, append(specs, own...), o.Runs)
	verified, err := preflight.Run(ctx, []preflight.Check{bundled})
	report.Results = slices.Concat(i.refused, report.Results, verified.Results, asked, failed, left)
	return preflight.NewRecord(o.Node, o.Policy, report), cmp.Or(failure, err)
}

// verification returns the check of the bundle, which has begun already: unless it makes files of patches, for they take space that other
// checks measure. After release, nothing reads the bundle.
func (i *Install) verification(ctx context.Context) (check preflight.Check, release func()) {
	check = preflight.Check{Name: "bundle", Probe: i.whole}
	if _, made := i.archive.PatchSpace(); made > 0 {
		return check, func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	check = check.Ahead(ctx)
	return check, func() { stop(); check.Probe(ctx, new(preflight.Reporter)) }
}

// checks are sealift's own checks of this host, in the order of the report.
func (i *Install) checks(h preflight.Host, needs preflight.Needs, o PreflightOptions) (checks []preflight.Check, err error) {
	if checks = preflight.Builtin(h, needs); o.ExcludeBuiltin {
		checks = preflight.Essential(h, needs)
	}
	if dropped, err := i.droppedStorage(); err != nil {
		return nil, err
	} else if len(dropped) > 0 {
		checks = append(checks, preflight.Check{Name: "storage", Probe: func(ctx context.Context, r *preflight.Reporter) { storageKept(ctx, dropped, i.bucketSecrets(), r) }})
	}
	if o.ExcludeBuiltin {
		return checks, nil
	}
	checks = append(checks, preflight.Check{Name: "address", Probe: i.addressCheck}, preflight.Check{Name: "installer", Probe: i.installerCheck},
		i.programsCheck(o.Node.Join || i.Joins(), hostpath.Folders))
	if _, hasCluster := kubernetes(i.addOns); hasCluster {
		checks = append(checks, i.loginChecks()...)
		checks = append(checks, preflight.Check{Name: "networks", Probe: i.networksCheck}, preflight.Check{Name: "firewall rules", Probe: i.firewallRules(needs.Role, needs.Resumed)})
	}
	probe := i.packagesCheck
	if i.settings.skipPackages {
		probe = i.lackedPackages
	}
	return append(checks, preflight.Check{Name: "host packages", Probe: probe}), nil
}

// KeepPreflight writes a record beside the journal.
func (i *Install) KeepPreflight(r preflight.Record) error {
	if err := node.MarkRoot(i.options.Root); err != nil {
		return i.explainDiskFull(err)
	}
	return i.explainDiskFull(r.Save(node.PreflightDir(i.options.Root)))
}

// preflights returns the specifications of the add-ons, and what their hooks say against this host.
func (i *Install) preflights(ctx context.Context, runs Running) (specs []preflight.Specification, failed []preflight.Result, err error) {
	specs = i.addOnChecks()
	if runs == RunNothing {
		return specs, nil, nil
	}
	hooked, failed, err := i.askHooks(ctx)
	return append(specs, hooked...), failed, err
}

// addOnChecks are the specifications that add-ons have as files.
func (c *contents) addOnChecks() (all []preflight.Specification) {
	for _, a := range c.addOns {
		if a.checks != nil {
			all = append(all, preflight.Specification{Name: a.name(), Kind: preflight.HostPreflight, Text: a.checks})
		}
	}
	return all
}

// installerPreflight returns the specification that an Installer may have in itself, spec.kurl.hostPreflights.
func installerPreflight(s *spec.Installer) ([]preflight.Specification, error) {
	own, ok := s.Section("kurl").Options["hostPreflights"]
	if !ok {
		return nil, nil
	}
	text, err := yaml.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("kurl.hostPreflights: %w", err)
	}
	return []preflight.Specification{{Name: "installer", Kind: preflight.HostPreflight, Text: text, Values: true}}, nil
}

// external runs Troubleshoot's checks. If its program is missing, only the built-in checks run, and the report says so.
func (i *Install) external(ctx context.Context, n preflight.Node, specs []preflight.Specification, runs Running) ([]preflight.Result, error) {
	if len(specs) == 0 {
		return nil, nil
	}
	if runs >= RunHooks {
		return i.unasked(), nil
	}
	program, err := i.program(ctx)
	if err != nil && !errors.Is(err, errUnsafeProgram) {
		return nil, err
	}
	return askTroubleshoot(ctx, program, err, n, i.spec, specs)
}

// askTroubleshoot runs the checks of specifications. refused is why a found program is not used.
func askTroubleshoot(ctx context.Context, program string, refused error, n preflight.Node, s *spec.Installer, specs []preflight.Specification) ([]preflight.Result, error) {
	var results []preflight.Result
	var texts [][]byte
	for _, one := range specs {
		text, err := one.Render(n, s)
		if err != nil {
			results = append(results, preflight.Result{Check: one.Name + ": specification", Status: preflight.Fail,
				Message: "cannot be read: " + err.Error(), Hint: "mend it, and build the add-on again"})
			continue
		}
		texts = append(texts, text)
	}
	if program == "" {
		return append(results, noProgram(refused)), nil
	}
	found, err := preflight.Program{Path: program}.Check(ctx, texts)
	if ctx.Err() != nil {
		return results, ctx.Err()
	}
	if err != nil {
		return append(results, preflight.Result{Check: "add-ons", Status: preflight.Fail, Message: "their checks could not be made: " + err.Error(), //nolint:nilerr // it is in the report
			Hint: "see why; --exclude-builtin-host-preflights goes on without them"}), nil
	}
	return append(results, found...), nil
}

// addRole adds the needs of the node's role (kURL §8.3): a joining node reaches the API servers, a joining control plane the
// other members of etcd and every kubelet.
func addRole(n *preflight.Needs, node preflight.Node, s *spec.Installer) {
	n.Firewall, n.SELinux = handling(s)
	if n.Role == preflight.NoNode {
		return
	}
	kurl := s.Section("kurl").Options
	n.IPv6 = n.IPv6 || isTrue(kurl, "ipv6") || isTrue(kurl, "dualStack")
	n.Role, n.Ports = preflight.ControlPlane, preflight.ControlPlanePorts()
	if !node.Primary {
		n.Role, n.Ports = preflight.Worker, preflight.WorkerPorts()
		if isTrue(s.AddOn("containerd").Options, "mirror") { // its agent gives images to other nodes
			n.Ports = append(n.Ports, share.Port)
		}
	}
	n.Resumed = n.Resumed || node.Upgrade
	if !node.Join {
		return
	}
	reach := func(hosts []string, ports ...string) {
		for _, host := range hosts {
			for _, port := range ports {
				n.Reach = append(n.Reach, net.JoinHostPort(strings.Trim(host, "[]"), port)) // people write IPv6 with brackets
			}
		}
	}
	reach(node.PrimaryHosts, "6443")
	if node.Primary {
		reach(node.PrimaryHosts, "2379", "2380", "10250")
		reach(node.SecondaryHosts, "10250")
	}
}

// handling is the Installer's setting for firewalls and SELinux.
func handling(s *spec.Installer) (firewall, selinux preflight.Handling) {
	firewalld, ufw := s.Section("firewalldConfig").Options, s.Section("ufwConfig").Options
	switch {
	case isTrue(firewalld, "hardFailOnFirewalld"), isTrue(ufw, "hardFailOnUFW"):
		firewall = preflight.HandlingRefused
	case isTrue(firewalld, "preserveConfig"):
	default: // step node/firewall opens it, or the Installer says that it is open
		firewall = preflight.HandlingDone
	}
	if len(s.Section("selinuxConfig").Options) > 0 { // a mode, commands, or that it is to be left alone
		selinux = preflight.HandlingDone
	}
	return firewall, selinux
}

// CheckHost checks this host for an Installer without its bundle; checks of disk space and of add-ons need the bundle. beside
// is the running sealift.
func CheckHost(ctx context.Context, s *spec.Installer, beside string, o PreflightOptions) (preflight.Record, error) {
	o = o.with(s)
	facts, err := host.Discover()
	if err != nil {
		return preflight.Record{}, fmt.Errorf("inspect the host: %w", err)
	}
	h, err := preflight.ThisHost(facts.Target())
	if err != nil {
		return preflight.Record{}, err
	}
	h.Chains = firewall.Chains
	var needs preflight.Needs
	for _, a := range s.AddOns {
		needs.AddOns = append(needs.AddOns, a.Name)
		if a.Name == kubernetesCapability {
			needs.Role = preflight.ControlPlane
		}
	}
	addRole(&needs, o.Node, s)
	checks := append(preflight.Builtin(h, needs), preflight.Check{Name: "firewall rules", Probe: func(ctx context.Context, r *preflight.Reporter) {
		droppedTraffic(ctx, r, firewall.Traffic{Ports: []string{flannelPort}, PodLink: "cni0"}, needs.Role, needs.Resumed)
	}})
	if o.ExcludeBuiltin {
		checks = preflight.Essential(h, needs)
	}
	report, err := preflight.Run(ctx, checks)
	if err != nil {
		return preflight.Record{}, err
	}
	if !o.Node.Join { // a joining host gets the settings of the cluster
		unmet, err := unmetByInstaller(s, facts)
		if err != nil {
			return preflight.Record{}, err
		}
		report.Results = slices.Concat(unmet, report.Results)
	}
	own, err := installerPreflight(s)
	if err != nil {
		return preflight.Record{}, err
	}
	if len(own) > 0 {
		program, refused := FindProgram(node.DefaultRoot, filepath.Dir(beside))
		found, err := askTroubleshoot(ctx, program, refused, o.Node, s, own)
		if err != nil {
			return preflight.Record{}, err
		}
		report.Results = append(report.Results, found...)
	}
	return preflight.NewRecord(o.Node, o.Policy, report), nil
}
