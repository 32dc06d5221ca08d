package preflight

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Needs is what an install asks of a host. Its zero value asks for nothing but a sane Linux.
type Needs struct {
	Platforms []string // that the bundle has images for; empty when it does not matter
	Targets   []string // that the bundle has host packages for; empty when it has none
	Role      Role
	Ports     []int    // TCP ports that must be free
	Reach     []string // addresses host:port on other nodes that must answer
	Space     []Space
	// The Installer says what to do about the host's own walls (kURL §2.1): firewalldConfig, ufwConfig, selinuxConfig.
	Firewall Wall
	SELinux  Wall
	// Resumed tells that this host carries an unfinished or finished install of the same cluster: then the cluster's
	// own ports and files are no obstacle.
	Resumed bool
}

// Role is what a host becomes.
type Role string

// The roles of a node. A host without one only gets files and images.
const (
	NoNode       Role = ""
	Worker       Role = "worker"
	ControlPlane Role = "control plane"
)

// Wall is what the Installer says about a firewall or SELinux.
type Wall string

// A wall is warned of, unless somebody has seen to it, or does not want to install behind it.
const (
	WallWarns   Wall = ""
	WallHandled Wall = "handled"
	WallFails   Wall = "fails"
)

// Space is disk space that will be taken below Path, which need not exist yet.
type Space struct {
	Path  string
	Bytes uint64
}

// ControlPlanePorts are the TCP ports of a control plane node: the API server, the node's way to it, and what serves hosts
// that join; etcd's clients, peers and metrics; the kubelet's health and its API; controller manager, scheduler.
func ControlPlanePorts() []int {
	return []int{6443, 6444, 6445, 2379, 2380, 2381, 10248, 10250, 10257, 10259}
}

// WorkerPorts are the TCP ports of a node without a control plane: its way to the API servers, kubelet.
func WorkerPorts() []int { return []int{6444, 10248, 10250} }

// Kubernetes' own minima for a control plane (kubeadm's NumCPU and Mem checks).
const (
	minCPUs   = 2
	minMemory = 1700 << 20 // bytes
)

// comfortableMemory is what a control plane with a few add-ons uses in practice, in bytes.
const comfortableMemory = 3800 << 20

// Builtin returns the checks that every install makes of its host.
func Builtin(h Host, n Needs) []Check {
	p := probes{host: h, needs: n}
	return []Check{
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
		{"ports", p.ports},
		{"other nodes", p.reach},
	}
}

// Essential returns the checks without which nothing would work at all; they are made whatever is left out.
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
		r.Refusef("run the command with sudo", "running as user %d; an install changes packages and services", p.host.UID)
		return
	}
	r.Passf("running as root")
}

func (p probes) architecture(_ context.Context, r *Reporter) {
	if have := p.needs.Platforms; len(have) > 0 && !slices.Contains(have, p.host.Platform) {
		r.Refusef("build the bundle with --platform "+p.host.Platform, "this host is %s; the bundle is for %s", p.host.Platform, strings.Join(have, ", "))
		return
	}
	r.Passf("%s", p.host.Platform)
}

func (p probes) target(_ context.Context, r *Reporter) {
	if have := p.needs.Targets; len(have) > 0 && !slices.Contains(have, p.host.Target) {
		r.Failf("build the packages with --target "+p.host.Target, "the bundle has no host packages for %s, only for %s",
			p.host.Target, strings.Join(have, ", "))
		return
	}
	r.Passf("%s", p.host.Target)
}

// label is one part of a name as RFC 1123 has it; Kubernetes wants node names made of these, 253 characters at most.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (p probes) hostname(_ context.Context, r *Reporter) {
	const hint = "set another with hostnamectl set-hostname NAME"
	name := strings.ToLower(p.host.Hostname) // as kubeadm does
	bad := slices.ContainsFunc(strings.Split(name, "."), func(part string) bool { return !label.MatchString(part) })
	switch {
	case bad || len(name) > 253:
		r.Failf(hint, "hostname %q cannot name a node: it must be letters, digits and '-' (RFC 1123)", p.host.Hostname)
	case name == "localhost" || strings.HasPrefix(name, "localhost."):
		r.Failf(hint, "hostname %q is what every host is called; nodes need names of their own", p.host.Hostname)
	default:
		r.Passf("%s", name)
	}
}

func (p probes) cpu(_ context.Context, r *Reporter) {
	if p.needs.Role == ControlPlane && p.host.CPUs < minCPUs {
		r.Failf("give the host more, or let it be a worker", "%d CPU; a control plane needs %d, and kubeadm refuses less", p.host.CPUs, minCPUs)
		return
	}
	r.Passf("%d", p.host.CPUs)
}

// Clocks outside these years make certificates that no other machine accepts. The first is when this check was written.
const (
	firstYear = 2026
	lastYear  = 2099
)

func (p probes) clock(_ context.Context, r *Reporter) {
	now := p.host.Now().UTC()
	if now.Year() < firstYear || now.Year() > lastYear {
		r.Warnf("set the clock, for instance with timedatectl set-time", "the clock says %s; certificates made now would not be valid elsewhere",
			now.Format(time.DateOnly))
		return
	}
	r.Passf("%s", now.Format(time.RFC3339))
}
