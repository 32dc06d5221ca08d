package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// state is the content of a host's state file. It is written before the things that it describes are created.
type state struct {
	Name    string     `json:"name"`
	OS      string     `json:"os"`
	Address netip.Addr `json:"address"`
	USB     []string   `json:"usb,omitempty"`
	Disk    string     `json:"disk,omitempty"` // of the caller, if it is not in the host's folder
	Created time.Time  `json:"created"`
	Owner   *process   `json:"owner,omitempty"`   // the process whose end is also the host's; nil when it stays until it is removed
	Manager *process   `json:"manager,omitempty"` // the process that runs systemd-nspawn, once there is one
}

// process names one process for good: ids are used again, but not with the same start time in the same boot.
type process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // field 22 of /proc/PID/stat, proc(5)
	Boot  string `json:"boot"`  // id of the machine's boot
}

func describeProcess(pid int) (*process, error) {
	start, err := startTime(pid)
	if err != nil {
		return nil, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, err
	}
	return &process{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}, nil
}

func (p *process) alive() bool {
	now, err := describeProcess(p.PID)
	return err == nil && *now == *p
}

func startTime(pid int) (string, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", err
	}
	// The second field is a name in brackets, which may contain any character.
	_, rest, ok := strings.Cut(string(data[strings.LastIndexByte(string(data), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat is not as proc(5) says", pid)
	}
	if state := fields[0]; state == "Z" || state == "X" {
		return "", os.ErrProcessDone
	}
	return fields[19], nil
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
		h.state = state{Name: name, Owner: &process{}}
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
		return fmt.Errorf("write down host %s: %w", h.state.Name, err)
	}
	return nil
}

// writeFile writes a file that is either as before or complete, whatever happens.
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
