package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Needs is what an install asks of a host. Its zero value asks for nothing but a sane Linux.
type Needs struct {
	Platforms []string // that the bundle has images for; empty when it does not matter
	Targets   []string // that the bundle has host packages for; empty when it has none
	Ports     []int    // TCP ports that must be free
	Space     []Space
	// Resumed tells that this host carries an unfinished or finished install of the same cluster: then the cluster's
	// own ports and files are no obstacle.
	Resumed bool
}

// Space is disk space that will be taken below Path, which need not exist yet.
type Space struct {
	Path  string
	Bytes uint64
}

// ControlPlanePorts are the TCP ports of a control plane node: the API server, etcd's clients and peers, kubelet,
// controller manager, scheduler.
func ControlPlanePorts() []int { return []int{6443, 2379, 2380, 10250, 10257, 10259} }

// WorkerPorts are the TCP ports of a node without a control plane: kubelet.
func WorkerPorts() []int { return []int{10250} }

// Kubernetes' own minima for a control plane (kubeadm's NumCPU and Mem checks).
const (
	minCPUs   = 2
	minMemory = 1700 << 20 // bytes
)

// Builtin returns the checks that every install makes of its host.
func Builtin(h Host, n Needs) []Check {
	p := probes{host: h, needs: n}
	return []Check{
		{"root", p.root},
		{"architecture", p.architecture},
		{"operating system", p.target},
		{"hostname", p.hostname},
		{"cgroups", p.cgroups},
		{"cpu", p.cpu},
		{"memory", p.memory},
		{"swap", p.swap},
		{"clock", p.clock},
		{"disk", p.disk},
		{"other cluster", p.otherCluster},
		{"leftovers", p.leftovers},
		{"ports", p.ports},
	}
}

type probes struct {
	host  Host
	needs Needs
}

func (p probes) root(_ context.Context, r *Reporter) {
	if p.host.UID != 0 {
		r.Failf("run the command with sudo", "running as user %d; an install changes packages and services", p.host.UID)
		return
	}
	r.Passf("running as root")
}

func (p probes) architecture(_ context.Context, r *Reporter) {
	if have := p.needs.Platforms; len(have) > 0 && !slices.Contains(have, p.host.Platform) {
		r.Failf("build the bundle with --platform "+p.host.Platform, "this host is %s; the bundle is for %s", p.host.Platform, strings.Join(have, ", "))
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
	if p.host.CPUs < minCPUs {
		r.Warnf("give the host more", "%d CPU; a control plane wants %d", p.host.CPUs, minCPUs)
		return
	}
	r.Passf("%d CPUs", p.host.CPUs)
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

// disk adds up what the paths on one file system need together.
func (p probes) disk(_ context.Context, r *Reporter) {
	type demand struct {
		free, need uint64
		paths      []string
	}
	var order []uint64
	demands := map[uint64]*demand{}
	for _, space := range p.needs.Space {
		fs, err := p.host.Disk(space.Path)
		if err != nil {
			r.unknown(err)
			continue
		}
		d := demands[fs.ID]
		if d == nil {
			d = &demand{free: fs.Free}
			demands[fs.ID] = d
			order = append(order, fs.ID)
		}
		d.need += space.Bytes
		d.paths = append(d.paths, space.Path)
	}
	for _, id := range order {
		d := demands[id]
		paths := strings.Join(d.paths, ", ")
		if d.need > d.free {
			r.Failf("free "+size(d.need-d.free)+", or mount a larger disk there", "%s: %s needed, %s free", paths, size(d.need), size(d.free))
			continue
		}
		r.Passf("%s: %s needed, %s free", paths, size(d.need), size(d.free))
	}
}

func (p probes) ports(ctx context.Context, r *Reporter) {
	if len(p.needs.Ports) == 0 {
		r.Passf("none are needed")
		return
	}
	if p.needs.Resumed {
		r.Passf("not looked at: the cluster on this host may use them")
		return
	}
	var free []string
	for _, port := range p.needs.Ports {
		err := p.host.PortError(ctx, port)
		switch {
		case err == nil:
			free = append(free, strconv.Itoa(port))
		case errors.Is(err, syscall.EADDRINUSE):
			r.Failf(fmt.Sprintf("stop what listens there; ss -ltnp 'sport = :%d' names it", port), "port %d is in use", port)
		default:
			r.unknown(fmt.Errorf("port %d: %w", port, err))
		}
	}
	if len(free) == len(p.needs.Ports) {
		r.Passf("free: %s", strings.Join(free, ", "))
	}
}

// server finds the API server in a kubeconfig, whose other content is none of a check's business.
var server = regexp.MustCompile(`(?m)^\s*server:\s*["']?([^"'\s]+)`)

func (p probes) otherCluster(_ context.Context, r *Reporter) {
	if p.needs.Resumed {
		r.Passf("a node of this cluster")
		return
	}
	const hint = "if that is the cluster that sealift made here, its journal is lost: put it back from a backup; " +
		"to give the cluster up with all that is in it: kubeadm reset, and ip link delete cni0"
	if config, err := fs.ReadFile(p.host.Root, "etc/kubernetes/kubelet.conf"); err == nil {
		where := "another cluster"
		if m := server.FindSubmatch(config); m != nil {
			where = "the cluster at " + string(m[1])
		}
		r.Failf(hint, "this host is a node of %s (/etc/kubernetes/kubelet.conf)", where)
		return
	} else if !errors.Is(err, fs.ErrNotExist) {
		r.unknown(err)
		return
	}
	for _, dir := range []string{"var/lib/rancher/k3s/agent", "var/lib/rancher/rke2/agent", "var/lib/k0s", "var/snap/microk8s/current"} {
		if _, err := fs.Stat(p.host.Root, dir); err == nil {
			r.Failf("uninstall it first", "another Kubernetes distribution is installed (/%s)", dir)
			return
		}
	}
	r.Passf("a node of no cluster")
}

func (p probes) leftovers(_ context.Context, r *Reporter) {
	if p.needs.Resumed {
		r.Passf("not looked at: they are this cluster's")
		return
	}
	var found []string
	for _, dir := range []string{"etc/kubernetes/manifests", "var/lib/etcd/member"} {
		entries, err := fs.ReadDir(p.host.Root, dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.unknown(err)
			return
		}
		for _, entry := range entries {
			if !strings.HasPrefix(entry.Name(), ".") {
				found = append(found, "/"+path.Join(dir, entry.Name()))
			}
		}
	}
	for _, file := range []string{"etc/kubernetes/pki/ca.crt", "etc/kubernetes/admin.conf", "sys/class/net/cni0"} {
		if _, err := fs.Stat(p.host.Root, file); err == nil {
			found = append(found, "/"+file)
		}
	}
	if len(found) > 0 {
		r.Failf("if nothing in them is needed, remove them: kubeadm reset, ip link delete cni0, rm -r /etc/kubernetes", "an earlier cluster left %s", strings.Join(found, ", "))
		return
	}
	r.Passf("none of an earlier cluster")
}

// size prints a size in the decimal units that disks are sold in.
func size(n uint64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	value, unit := float64(n), 0
	for value >= 1000 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
