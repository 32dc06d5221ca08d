package preflight

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/internal/platform"
	"github.com/sealift/sealift/manifest"
)

// Needs lists the requirements of an install on its host. The zero value requires only a working Linux.
type Needs struct {
	Platforms []string // the bundle's platforms; empty if any will do
	Targets   []string // the bundle's targets; empty if it has no host packages
	Role      Role
	AddOns    []string // names of the Installer's add-ons
	IPv6      bool     // pods have IPv6 addresses, alone or beside IPv4
	Ports     []int    // TCP ports that must be free
	Reach     []string // host:port addresses on other nodes that must accept connections
	Space     []Space
	// Firewall and SELinux follow the Installer's firewalldConfig, ufwConfig and selinuxConfig (kURL §2.1).
	Firewall Handling
	SELinux  Handling
	// Written is when the bundle's file was written, which is before now. Zero if that is not known.
	Written time.Time
	// Resumed means that this host has an unfinished or finished install of the same cluster. The cluster's own ports and files
	// are then no obstacle.
	Resumed bool
}

// Role is the role of a host in the cluster.
type Role string

// The roles of a host. NoNode means that it only receives files and images.
const (
	NoNode       Role = ""
	Worker       Role = "worker"
	ControlPlane Role = "control plane"
)

// Handling selects how a check reports an active firewall, or SELinux in enforcing mode.
type Handling string

// The ways of handling. HandlingWarn is the default. HandlingDone means that the install, or the Installer's author, takes
// care of it. HandlingRefused means that the Installer forbids an install behind it.
const (
	HandlingWarn    Handling = ""
	HandlingDone    Handling = "handled"
	HandlingRefused Handling = "fails"
)

// Space is disk space that the install takes below Path. Path need not exist yet.
type Space struct {
	Path  string
	Bytes uint64
	Files uint64 // about how many
}

// ControlPlanePorts are the TCP ports of a control plane node: API server, the node's load balancer and the join server;
// etcd's clients, peers and metrics; the kubelet's health and API; controller manager and scheduler.
func ControlPlanePorts() []int {
	return []int{6443, 6444, 6445, 2379, 2380, 2381, 10248, 10250, 10257, 10259}
}

// WorkerPorts are the TCP ports of a worker: its load balancer for the API servers, and the kubelet.
func WorkerPorts() []int { return []int{6444, 10248, 10250} }

// Kubernetes' own minima for a control plane (kubeadm's NumCPU and Mem checks).
const (
	minCPUs   = 2
	minMemory = 1700 << 20 // bytes
)

// comfortableMemory is the memory that a control plane with a few add-ons uses in practice, in bytes.
const comfortableMemory = 3800 << 20

// Builtin returns the checks that every install runs on its host.
func Builtin(h Host, n Needs) []Check {
	p := probes{host: h, needs: n}
	checks := []Check{
		{"root", p.root},
		{"architecture", p.architecture},
		{"operating system", p.target},
		{"hostname", p.hostname},
		{"cgroups", p.cgroups},
		{"kernel modules", p.modules},
		{"cpu", p.cpu},
		{"memory", p.memory},
		{"swap", p.swap},
		{"clock", p.clock},
		{"time synchronisation", p.synchronised},
		{"name servers", p.nameServers},
		{"selinux", p.selinux},
		{"firewall", p.firewall},
		{"disk", p.disk},
		{"other cluster", p.otherCluster},
		{"leftovers", p.leftovers},
		{"container runtime", p.runtime},
		{"pod network", p.podNetwork},
		{"kernel settings", p.sysctls},
		{"ports", p.ports},
		{"other nodes", p.reach},
	}
	if h.FIPS {
		checks = append(checks, Check{"FIPS mode", p.fipsMode})
	}
	return checks
}

// Essential returns the checks that no option can skip, because nothing would work without them.
func Essential(h Host, n Needs) []Check {
	p := probes{host: h, needs: n}
	return []Check{{"root", p.root}, {"architecture", p.architecture}}
}

type probes struct {
	host  Host
	needs Needs
}

func (p probes) root(_ context.Context, r *Reporter) {
	if p.host.UID != 0 {
		r.Refusef(hostpath.WithSudo(), "running as user %d; an install changes packages and services", p.host.UID)
		return
	}
	r.Passf("running as root")
}

func (p probes) architecture(_ context.Context, r *Reporter) {
	if have := p.needs.Platforms; len(have) > 0 && !platform.Contains(have, p.host.Platform) {
		r.Refusef("build the bundle with --platform "+p.host.Platform, "this host is %s; the bundle is for %s", p.host.Platform, strings.Join(have, ", "))
		return
	}
	r.Passf("%s", p.host.Platform)
}

func (p probes) target(_ context.Context, r *Reporter) {
	if have := p.needs.Targets; len(have) > 0 && !slices.Contains(have, p.host.Target) {
		hint := "build the packages with --target " + p.host.Target
		if !slices.Contains(manifest.BuiltInTargets(), p.host.Target) {
			hint = "Sealift has no target " + p.host.Target + ": use one of these hosts, or define the target in sealift.yaml and build the packages with it"
		}
		r.Failf(hint, "the bundle has no host packages for %s, only for %s",
			p.host.Target, strings.Join(have, ", "))
		return
	}
	r.Passf("%s", p.host.Target)
}

// maxNodeName is the length of a node's name in bytes: the kubelet puts it into the label kubernetes.io/hostname, whose values are shorter
// than names of objects. Linux allows host names of 64.
const maxNodeName = 63

// label is one label of a host name (RFC 1123). Kubernetes requires node names of such labels.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (p probes) hostname(_ context.Context, r *Reporter) {
	const hint = "set another with hostnamectl set-hostname NAME"
	name := strings.ToLower(p.host.Hostname) // as kubeadm does
	bad := slices.ContainsFunc(strings.Split(name, "."), func(part string) bool { return !label.MatchString(part) })
	switch {
	case len(name) > maxNodeName:
		r.Failf(hint, "hostname %q has %d characters; a node name has at most %d", p.host.Hostname, len(name), maxNodeName)
	case bad:
		r.Failf(hint, "hostname %q cannot be a node name: use letters, digits and '-' (RFC 1123)", p.host.Hostname)
	case slices.Contains([]string{"localhost", "localhost4", "localhost6"}, strings.SplitN(name, ".", 2)[0]):
		r.Failf(hint, "hostname %q is not unique; each node needs its own name", p.host.Hostname)
	default:
		r.Passf("%s", name)
	}
}

func (p probes) cpu(_ context.Context, r *Reporter) {
	if p.needs.Role == ControlPlane && p.host.CPUs < minCPUs {
		r.Failf("add CPUs, or make the host a worker", "%d CPU; a control plane needs at least %d", p.host.CPUs, minCPUs)
		return
	}
	r.Passf("%d", p.host.CPUs)
}

// A clock outside these years makes certificates that no other machine accepts. This check was written in the first year.
const (
	firstYear = 2026
	lastYear  = 2099
)

// The clock may be behind the bundle's file by the first time, because FAT stores local times, and ahead by the second, since a release of
// Kubernetes is supported for 14 months. A host without a battery begins with the time at which its systemd was built.
const (
	behindBundle = 24 * time.Hour
	aheadBundle  = 2 * 365 * 24 * time.Hour
)

func (p probes) clock(_ context.Context, r *Reporter) {
	const hint = "set the clock, for instance with timedatectl set-time"
	now, written := p.host.Now().UTC(), p.needs.Written.UTC()
	switch {
	case now.Year() < firstYear || now.Year() > lastYear:
		r.Warnf(hint, "the clock says %s; other machines would reject certificates made now", now.Format(time.DateOnly))
		return
	case !written.IsZero() && now.Before(written.Add(-behindBundle)):
		r.Warnf(hint, "the clock says %s, and the bundle was written on %s; other machines would reject certificates made now", now.Format(time.DateOnly), written.Format(time.DateOnly))
		return
	case !written.IsZero() && now.After(written.Add(aheadBundle)):
		r.Warnf(hint+", or use a newer bundle", "the clock says %s, and the bundle was written on %s; if the clock is wrong, other machines would reject certificates made now",
			now.Format(time.DateOnly), written.Format(time.DateOnly))
		return
	}
	r.Passf("%s", now.Format(time.RFC3339))
}
