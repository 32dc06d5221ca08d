// Package host boots throw-away Linux machines for tests and demos: systemd-nspawn containers with systemd as their first
// process, or virtual machines, on a bridge that leads nowhere. A host has no route out, so whatever works in it works behind an air gap.
//
// Nothing is left behind. What a host is made of (processes, control groups, a mount namespace, a network interface, a
// folder) can be found from its folder, which exists before anything else; every call first removes the hosts whose owner
// has died, however it died.
package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/sealift/sealift/internal/filelock"
	"github.com/sealift/sealift/testgrid/lab/debian"
	"github.com/sealift/sealift/testgrid/lab/qemu"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// StateEnv is the variable that moves the folder with the hosts. The folder's file system must work as the upper layer of
// an overlay, so it cannot be an overlay itself.
const StateEnv = "SEALIFT_LAB_STATE"

// defaultState is the same for all users of a machine, so that any later call finds leftovers of a killed process.
const defaultState = "/var/lib/sealift-lab"

// Options of a rack. The zero value is the machine's common rack.
type Options struct {
	StateDir string            // default $SEALIFT_LAB_STATE or /var/lib/sealift-lab
	CacheDir string            // the lab's cache; default as in package cache
	Progress func(line string) // one line per event
}

// Rack is a set of hosts with a common network. Racks with different state folders are independent.
type Rack struct {
	dir      string
	id       string // short name of the rack, unique on this machine
	cacheDir string
	progress func(line string)
}

// ErrNoHost is returned for a name that no host has.
var ErrNoHost = errors.New("host not found; list the hosts with: sealift-testgrid lab list")

// OpenRack prepares the folder for hosts and removes the hosts of dead owners. It needs root.
func OpenRack(ctx context.Context, o Options) (*Rack, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("lab hosts have namespaces, mounts and interfaces, which only root can make: run this as root")
	}
	if err := debian.CheckTools(Tools()); err != nil {
		return nil, err
	}
	r := &Rack{dir: o.StateDir, cacheDir: o.CacheDir, progress: o.Progress}
	if r.dir == "" {
		r.dir = os.Getenv(StateEnv)
	}
	if r.dir == "" {
		r.dir = defaultState
	}
	var err error
	if r.dir, err = filepath.Abs(r.dir); err != nil {
		return nil, err
	}
	if r.progress == nil {
		r.progress = func(string) {}
	}
	r.id = rackID(r.dir)
	if err := os.MkdirAll(r.hostsDir(), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for lab hosts: %w", err)
	}
	return r, r.Reap(ctx)
}

// rackID is a short id of a rack, for names with a limited length.
func rackID(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:3])
}

// Tools lists the Debian packages that hosts need, besides those for their tree.
func Tools() []debian.Tool {
	return []debian.Tool{debian.Nspawn, debian.IPRoute, debian.Nsenter, debian.NFTables}
}

// machineTools lists the Debian packages that hosts need beside those of Tools if they are virtual machines of a system.
func machineTools(system string) []debian.Tool {
	return []debian.Tool{boardOf(system).Tool, debian.QEMUImage, debian.MakeExt4, debian.SSH}
}

func (r *Rack) hostsDir() string { return filepath.Join(r.dir, "hosts") }

// lock serialises operations on several hosts: address allocation, the bridge, reaping.
func (r *Rack) lock(ctx context.Context) (unlock func(), err error) {
	return filelock.WaitFile(ctx, filepath.Join(r.dir, "lock"))
}

// List returns all hosts, sorted by name.
func (r *Rack) List() ([]*Host, error) {
	entries, err := os.ReadDir(r.hostsDir())
	if err != nil {
		return nil, fmt.Errorf("list lab hosts: %w", err)
	}
	var hosts []*Host
	for _, entry := range entries {
		h, err := r.load(entry.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed in between
		}
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// Find returns the host with this name, or ErrNoHost.
func (r *Rack) Find(name string) (*Host, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	h, err := r.load(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, ErrNoHost)
	}
	return h, err
}

// Reap removes the hosts whose owner has died.
func (r *Rack) Reap(ctx context.Context) error {
	unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	hosts, err := r.List()
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range hosts {
		if h.state.Owner == nil || h.state.Owner.alive() {
			continue
		}
		r.progress("removing host " + h.Name() + ", whose owner is gone")
		errs = append(errs, h.dismantle(ctx))
	}
	return errors.Join(append(errs, r.dropBridgeIfUnused(ctx))...)
}

// Remove stops a host and removes every part of it. If the host does not exist, it returns ErrNoHost.
func (r *Rack) Remove(ctx context.Context, name string) error {
	unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	h, err := r.Find(name)
	if err != nil {
		return err
	}
	if err := h.dismantle(ctx); err != nil {
		return err
	}
	return r.dropBridgeIfUnused(ctx)
}

// validName matches host names: a DNS label (RFC 1123), short enough for derived names.
var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

func checkName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("%q is not a valid host name: use at most 32 lower-case letters, digits and dashes, such as node-1", name)
	}
	return nil
}

// systems maps operating systems to the components with their trees.
func systems() map[string]string {
	return map[string]string{"debian-12": upstream.HostDebian12, "debian-13": upstream.HostDebian13}
}

// machines maps operating systems to the components with their disks for virtual machines.
func machines() map[string]string {
	return map[string]string{"debian-12": upstream.MachineDebian12, DebianARM: upstream.MachineDebian12ARM}
}

// DebianARM is Debian 12 on a processor of arm64, which only a virtual machine has.
const DebianARM = "debian-12-arm64"

// boardOf returns what a system's virtual machines are made of.
func boardOf(system string) qemu.Board {
	if system == DebianARM {
		return qemu.BoardOf("arm64")
	}
	return qemu.BoardOf("amd64")
}

// Systems lists the operating systems that a host can run.
func Systems() []string { return slices.Sorted(maps.Keys(systems())) }

// MachineSystems lists the operating systems that a host can run if it is a virtual machine.
func MachineSystems() []string { return slices.Sorted(maps.Keys(machines())) }
