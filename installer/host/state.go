package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/host/firewall"
	"github.com/sealift/sealift/installer/host/mounts"
	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/internal/proc"
)

// State is the state of a running system that is in no file.
type State struct {
	Units    []string          `json:"units"`    // services that run
	Modules  []string          `json:"modules"`  // of the kernel
	Swaps    []string          `json:"swaps"`    // devices and files in use as swap
	Sysctls  map[string]string `json:"sysctls"`  // settings of the kernel, by path below /proc/sys
	Mounts   []string          `json:"mounts"`   // where something is mounted
	Links    []string          `json:"links"`    // network interfaces
	Routes   []string          `json:"routes"`   // of the main table
	Firewall []string          `json:"firewall"` // rules and chains, with their table
}

// ReadState reads the state of the running system.
func ReadState(ctx context.Context) (s State, err error) {
	var errs []error
	read := func(into *[]string, file string, each func(fields []string) string) {
		lines, err := proc.Fields(file, each)
		*into, errs = lines, append(errs, err)
	}
	read(&s.Modules, "/proc/modules", func(f []string) string { return f[0] })
	read(&s.Swaps, "/proc/swaps", func(f []string) string {
		if f[0] == "Filename" {
			return ""
		}
		return proc.Unescape(f[0])
	})
	mounted, err := mounts.Points()
	s.Mounts, errs = mounted, append(errs, err)
	routes, err := network.Routes()
	errs = append(errs, err)
	for _, r := range routes {
		if !r.Is6() { // routers announce those of IPv6, so that they change on their own
			s.Routes = append(s.Routes, r.String())
		}
	}
	interfaces, err := net.Interfaces()
	errs = append(errs, err)
	for _, i := range interfaces {
		s.Links = append(s.Links, i.Name)
	}
	s.Units = activeUnits(ctx)
	s.Firewall = firewall.Rules(ctx)
	s.Sysctls = readSysctls(sysctlFolder)
	return s, errors.Join(errs...)
}

// activeUnits lists the services that run; none where systemd does not.
func activeUnits(ctx context.Context) []string {
	out, err := exec.CommandContext(ctx, "systemctl", "list-units", "--type=service", "--state=running", "--plain", "--no-legend", "--no-pager").Output()
	if err != nil {
		return nil
	}
	var units []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 0 {
			units = append(units, f[0])
		}
	}
	slices.Sort(units)
	return units
}

// Stopped returns the units that are enabled but not running, and those whose last run failed. A oneshot unit, such as one that a timer
// starts, is healthy if it did not fail.
func Stopped(ctx context.Context, units []string) (stopped []string) {
	for _, unit := range units {
		out, err := exec.CommandContext(ctx, "systemctl", "show", "--property=Type,UnitFileState,ActiveState", "--", unit).Output()
		if err != nil {
			continue
		}
		has := strings.Fields(string(out))
		if slices.Contains(has, "ActiveState=failed") || slices.Contains(has, "UnitFileState=enabled") && !slices.Contains(has, "ActiveState=active") && !slices.Contains(has, "Type=oneshot") {
			stopped = append(stopped, unit)
		}
	}
	return stopped
}

const sysctlFolder = "/proc/sys"

// readSysctls reads the settings that a cluster and its add-ons change: those of the whole system, but not those of single
// interfaces, which disappear with them.
func readSysctls(folder string) map[string]string {
	found := make(map[string]string)
	for _, pattern := range []string{
		"vm/*", "kernel/panic*", "kernel/keys/root_max*", "fs/inotify/*", "fs/file-max", "fs/nr_open", "fs/aio-max-nr", "net/core/somaxconn",
		"net/ipv4/ip_forward", "net/ipv4/ip_*local*", "net/ipv4/tcp_*keepalive*", "net/ipv4/conf/all/*", "net/ipv4/conf/default/*", "net/ipv4/vs/*",
		"net/ipv6/conf/all/*", "net/ipv6/conf/default/*", "net/bridge/*", "net/netfilter/nf_conntrack_max", "net/netfilter/nf_conntrack_tcp*",
	} {
		names, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			continue
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil { // some can only be written
				continue
			}
			path, err := filepath.Rel(folder, name)
			if err == nil {
				found[path] = strings.Join(strings.Fields(string(data)), " ")
			}
		}
	}
	return found
}

// SetSysctl changes one setting of the kernel, named by its path below /proc/sys.
func SetSysctl(path, value string) error {
	return os.WriteFile(filepath.Join(sysctlFolder, path), []byte(value), 0o644)
}

// Difference is a changed part of the running system.
type Difference struct{ What, Why string }

// Differences compares two states of a system in both directions: in s and not in before, and in before and not in s.
func (s State) Differences(before State) (different []Difference) {
	for _, row := range []struct {
		noun        string
		now, before []string
	}{
		{"service", s.Units, before.Units}, {"kernel module", s.Modules, before.Modules}, {"swap", s.Swaps, before.Swaps},
		{"mount", s.Mounts, before.Mounts}, {"network interface", s.Links, before.Links}, {"route", s.Routes, before.Routes},
		{"firewall rule", s.Firewall, before.Firewall},
	} {
		for _, one := range missing(row.now, row.before) {
			different = append(different, Difference{row.noun + " " + one, "was not there before"})
		}
		for _, one := range missing(row.before, row.now) {
			different = append(different, Difference{row.noun + " " + one, "was there before"})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(s.Sysctls)) {
		if was, known := before.Sysctls[path]; known && was != s.Sysctls[path] {
			different = append(different, Difference{"sysctl " + strings.ReplaceAll(path, "/", "."), fmt.Sprintf("is %s, and was %s before", s.Sysctls[path], was)})
		}
	}
	return different
}

// missing returns the elements of a that are not in b, each once.
func missing(a, b []string) []string {
	var found []string
	for _, one := range a {
		if !slices.Contains(b, one) && !slices.Contains(found, one) {
			found = append(found, one)
		}
	}
	return found
}
