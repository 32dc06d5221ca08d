package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sealift/sealift/testgrid/lab/debian"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// DefaultOS is the default operating system of a host.
const DefaultOS = "debian-12"

// Spec describes a host to boot.
type Spec struct {
	Name string   // a DNS label; default the first of host-1, host-2, … that is free
	OS   string   // one of Systems(); default DefaultOS
	USB  []string // folders of this machine that the host has read-only at /media/usb, /media/usb2, …
	// Disk is the folder for everything that the host writes. It outlives the host. By default, it is removed with the
	// host.
	Disk string
	// Exit gives the host a route to all other networks. What the host sends there leaves it, is counted, and is dropped
	// outside of the host; see Host.Egress.
	Exit bool
	// IPv6 gives the host an IPv6 address instead of one of IPv4.
	IPv6 bool
	// DualStack gives the host an IPv6 address in addition to the IPv4 one.
	DualStack bool
	// CPUs is how many processors the host has: of a container, the share that it may use of those of this machine, such as 0.2; by default
	// all. A virtual machine has whole ones, by default DefaultCPUs.
	CPUs float64
	// Memory is the host's, in bytes: of a container, the most that it may use of this machine's; by default all. A virtual machine has
	// DefaultMemory by default.
	Memory int64
	// Machine makes the host a virtual machine, with a kernel, a disk and a clock of its own. nil is a container.
	Machine *MachineSpec
	// Keep lets the host outlive the process that boots it, until it is removed by name.
	Keep bool
}

// Boot boots a host and returns when its systemd reports that it is up. It first makes the host's tree if the cache lacks
// it. If it fails or ctx ends, it leaves nothing behind.
func (r *Rack) Boot(ctx context.Context, s Spec) (*Host, error) {
	if err := checkName(s.Name); s.Name != "" && err != nil {
		return nil, err
	}
	if s.OS == "" {
		s.OS = DefaultOS
	}
	usb, err := checkUSB(s.USB)
	if err != nil {
		return nil, err
	}
	tree, err := r.tree(ctx, s.OS, s.Machine != nil)
	if err != nil {
		return nil, err
	}
	if err := raiseLimits(); err != nil {
		return nil, err
	}
	h, err := r.reserve(ctx, s, usb)
	if err != nil {
		return nil, err
	}
	if err := h.boot(ctx, tree, s.Keep); err != nil {
		return nil, errors.Join(fmt.Errorf("boot host %s: %w", h.Name(), err), r.Remove(context.WithoutCancel(ctx), h.Name()))
	}
	return h, nil
}

// tree makes the tree of an operating system, unless the cache has it. For a virtual machine, it is the folder with the disk and the
// kernel.
func (r *Rack) tree(ctx context.Context, system string, machine bool) (string, error) {
	components, known, kind := systems(), Systems(), "hosts"
	if machine {
		components, known, kind = machines(), MachineSystems(), "virtual machines"
	}
	component, ok := components[system]
	if !ok {
		return "", fmt.Errorf("the lab has no system %q for %s: use %s", system, kind, strings.Join(known, " or "))
	}
	workshop, err := upstream.NewWorkshop(upstream.Options{CacheDir: r.cacheDir, Progress: r.progress})
	if err != nil {
		return "", err
	}
	if machine {
		if err := debian.CheckTools(machineTools(system)); err != nil {
			return "", err
		}
		return workshop.Path(ctx, component)
	}
	return workshop.File(ctx, upstream.FileOf{Component: component, Name: upstream.TreeName})
}

func checkUSB(folders []string) ([]string, error) {
	var list []string
	for _, folder := range folders {
		path, err := filepath.Abs(folder)
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("%s cannot be plugged into a host: it is not a folder", folder)
		}
		list = append(list, path)
	}
	return list, nil
}

// reserve makes the host's folder with an unused name and address.
func (r *Rack) reserve(ctx context.Context, s Spec, usb []string) (*Host, error) {
	unlock, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	owner, err := describeProcess(os.Getpid())
	if err != nil {
		return nil, err
	}
	if s.Name == "" {
		s.Name = r.freeName()
	}
	address, err := r.freeAddress(networkOf(s.IPv6))
	if err != nil {
		return nil, err
	}
	var address6 netip.Addr
	if s.DualStack {
		if address6, err = r.freeAddress(network6); err != nil {
			return nil, err
		}
	}
	h := &Host{rack: r, dir: filepath.Join(r.hostsDir(), s.Name)}
	h.state = state{Name: s.Name, OS: s.OS, Address: address, Address6: address6, USB: usb, Disk: s.Disk, Exit: s.Exit, CPUs: s.CPUs, Memory: s.Memory,
		Created: time.Now().UTC().Truncate(time.Second), Owner: owner}
	if s.Machine != nil {
		h.state.makeMachine(*s.Machine)
	}
	if err := os.Mkdir(h.dir, 0o700); errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("host %s already exists; remove it first with: sealift-testgrid lab remove %s", s.Name, s.Name)
	} else if err != nil {
		return nil, fmt.Errorf("make the folder of host %s: %w", s.Name, err)
	}
	err = h.save()
	if err == nil {
		err = r.makeBridge(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(h.dir), r.dropBridgeIfUnused(context.WithoutCancel(ctx)))
	}
	return h, nil
}

// freeName returns the first unused numbered name. The caller must hold the rack's lock.
func (r *Rack) freeName() string {
	for n := 1; ; n++ {
		name := "host-" + strconv.Itoa(n)
		if _, err := os.Lstat(filepath.Join(r.hostsDir(), name)); errors.Is(err, os.ErrNotExist) {
			return name
		}
	}
}

// boot makes the host's disk, starts the host, and waits for it. The host's folder must exist.
func (h *Host) boot(ctx context.Context, tree string, keep bool) error {
	if err := h.platform().prepare(ctx, tree); err != nil {
		return err
	}
	if err := h.platform().powerOn(ctx, tree); err != nil {
		return err
	}
	if h.state.Exit {
		if err := h.watchEgress(ctx); err != nil {
			return err
		}
	}
	if keep {
		return h.Keep()
	}
	return nil
}

// Keep lets the host outlive this process, until it is removed by name.
func (h *Host) Keep() error {
	h.state.Owner = nil
	return h.save()
}

// Own lets the host end with this process, even if it was kept.
func (h *Host) Own() error {
	owner, err := describeProcess(os.Getpid())
	if err != nil {
		return err
	}
	h.state.Owner = owner
	return h.save()
}

func (h *Host) consolePath() string { return filepath.Join(h.dir, "console.log") }

// consoleTail returns the end of the output of the host and its manager.
func (h *Host) consoleTail() string {
	data, err := os.ReadFile(h.consolePath())
	if err != nil {
		return err.Error()
	}
	const most = 4096
	return strings.TrimSpace(string(data[max(0, len(data)-most):]))
}
