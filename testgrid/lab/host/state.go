package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/sealift/sealift/internal/proc"
)

// state is the content of a host's state file. It is written before the things that it describes are created.
type state struct {
	Name     string     `json:"name"`
	OS       string     `json:"os"`
	Address  netip.Addr `json:"address"`
	Address6 netip.Addr `json:"address6,omitzero"` // the second one of a host with IPv4 and IPv6
	USB      []string   `json:"usb,omitempty"`
	Disk     string     `json:"disk,omitempty"` // of the caller, if it is not in the host's folder
	Exit     bool       `json:"exit,omitempty"` // it has a route to other networks, and a table that drops its packets
	CPUs     float64    `json:"cpus,omitempty"` // see Spec
	Memory   int64      `json:"memory,omitempty"`
	Created  time.Time  `json:"created"`
	Owner    *identity  `json:"owner,omitempty"`   // the process whose end is also the host's; nil when it stays until it is removed
	Manager  *identity  `json:"manager,omitempty"` // the process that runs systemd-nspawn, or QEMU, once there is one
	// Machine is set if the host is a virtual machine.
	Machine *machineState `json:"machine,omitempty"`
}

// identity names one process for good: ids are used again, but not with the same start time in the same boot.
type identity struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // see process.Started
	Boot  string `json:"boot"`  // see process.Boot
}

func describeProcess(pid int) (*identity, error) {
	start, err := proc.Started(pid)
	if err != nil {
		return nil, err
	}
	boot, err := proc.Boot()
	if err != nil {
		return nil, err
	}
	return &identity{PID: pid, Start: start, Boot: boot}, nil
}

func (p *identity) alive() bool {
	now, err := describeProcess(p.PID)
	return err == nil && *now == *p
}

const stateFile = "host.json"

func (r *Rack) load(name string) (*Host, error) {
	h := &Host{rack: r, dir: filepath.Join(r.hostsDir(), name)}
	data, err := os.ReadFile(filepath.Join(h.dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, statErr := os.Stat(h.dir); statErr != nil {
			return nil, statErr
		}
		// The process that made the folder died before it wrote the file: the host has no living owner.
		h.state = state{Name: name, Owner: &identity{}}
		return h, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &h.state); err != nil {
		return nil, fmt.Errorf("read the state of host %s in %s: %w", name, h.dir, err)
	}
	return h, nil
}

// save replaces the host's state atomically.
func (h *Host) save() error {
	data, err := json.MarshalIndent(h.state, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(h.dir, stateFile), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("record host %s: %w", h.state.Name, err)
	}
	return nil
}

// writeFile writes a file atomically.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
