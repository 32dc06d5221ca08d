package reset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sealift/sealift/installer/cluster/bridge"
	"github.com/sealift/sealift/installer/cluster/registry"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/baseline"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/firewall"
	"github.com/sealift/sealift/installer/host/mounts"
	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/installer/host/packages"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/host/textfile"
	"github.com/sealift/sealift/installer/journal/node"
)

// DataFolders are the folders with data of volumes that a reset would remove.
func (r *Reset) DataFolders() (found []string) {
	for _, folder := range node.DataFolders() {
		if entries, err := os.ReadDir(folder); err == nil && len(entries) > 0 && !r.record.Before().Folders[folder] {
			found = append(found, folder)
		}
	}
	return found
}

func (r *Reset) units() []string { return node.Units(r.record) }

func (r *Reset) services(ctx context.Context) error {
	var errs []error
	for _, unit := range r.units() {
		if state, _ := command.UnitState(ctx, unit); ctx.Err() == nil && (state == "" || state == "inactive" || state == "failed") {
			continue
		}
		errs = append(errs, command.Run(ctx, r.Log, "systemctl", "stop", unit))
	}
	_, err := registry.Mirror{}.Set(nil) // the agent wrote it, outside of any step
	return errors.Join(append(errs, bridge.Stop(ctx, r.Log), err)...)
}

// ownContainers reports whether containerd came with the install.
func (r *Reset) ownContainers() bool { return !r.record.Before().Folders[node.ContainerdDir] }

func (r *Reset) containers(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, speed.Patience(time.Minute))
	defer cancel()
	err := host.KillContainers(bounded, "k8s.io")
	folders := []string{"/var/lib/kubelet", "/run/netns"}
	if r.ownContainers() {
		folders = append(folders, "/run/containerd", node.ContainerdDir)
	}
	return errors.Join(err, mounts.Unmount(folders, r.record.Before().System.Mounts))
}

func (r *Reset) network(ctx context.Context) error {
	before := r.record.Before().System
	own, err := node.Networks(r.options.Root, r.Journal.Records())
	if err != nil { // leftover routes are named at the end
		fmt.Fprintln(r.Log, err)
	}
	return errors.Join(network.RemoveLinks(ctx, r.Log, before.Links), firewall.RemoveChains(ctx, r.Log, firewall.PodChains()), network.RemoveRoutes(ctx, r.Log, before.Routes, own))
}

// newPackages are those of the install that nobody has removed or replaced since.
func (r *Reset) newPackages() (names []string) {
	for name, change := range r.record.Changes().Packages {
		if r.record.Before().Packages[name] == "" && change.To != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (r *Reset) packages(ctx context.Context) error {
	names := r.newPackages()
	if err := r.record.Begin(ctx, ""); err != nil {
		return err
	}
	kept, err := packages.Remove(ctx, r.Log, names)
	// A package removes settings that it found here: those are restored with the other files.
	err = errors.Join(err, r.record.Note(ctx, "reset/packages"))
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		r.leaves("package "+name, "is kept: %s", kept[name])
	}
	return err
}

func (r *Reset) folders(context.Context) error {
	var errs []error
	data := r.DataFolders()
	for _, folder := range append(node.ClusterFolders(), data...) {
		if _, err := os.Lstat(folder); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		target, err := os.Readlink(folder)
		switch {
		case err == nil && r.record.Before().Links[folder] != target:
			r.leaves(folder, "is a link that was not there before the install; what is in %s is kept", target)
		case r.record.Before().Folders[folder]:
			r.leaves(folder, "had files before the install; it is kept with what is in it now")
		case slices.Contains(data, folder) && r.options.KeepData:
			r.leaves(folder, "has the data of volumes, which are kept as asked")
		default:
			_, watched := r.record.Before().Files[folder]
			errs = append(errs, r.empty(folder, watched))
		}
	}
	if _, existed := r.record.Before().Files[node.KubectlFolder]; !existed {
		if err := files.Remove(node.KubectlFolder); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// empty removes the content of a folder, and the folder itself unless it existed before. Mounts below are kept, and reported.
// Of a link, which the caller trusts, the folder that it leads to is emptied.
func (r *Reset) empty(folder string, keep bool) error {
	if _, err := os.Readlink(folder); err == nil {
		resolved, err := files.Resolve(folder)
		if err != nil {
			return err
		}
		folder, keep = resolved, true
	}
	mounted, err := mounts.Empty(folder, keep)
	for _, mount := range mounted {
		r.left = append(r.left, node.LeftMount(mount))
	}
	return err
}

// elsewhere are the paths that other steps remove, keep, or name.
func (r *Reset) elsewhere() []string { return append(r.DataFolders(), node.Binary) }

func (r *Reset) files(ctx context.Context) error {
	left, err := r.record.UndoFiles(r.elsewhere()...)
	r.left = append(r.left, left...)
	return errors.Join(err, textfile.Place{Memory: node.TextfileFile(r.options.Root)}.Remove(), command.Run(ctx, r.Log, "systemctl", "daemon-reload"), resetFailed(ctx, r.units()))
}

// resetFailed makes systemd forget removed units; it knows only the failed ones.
func resetFailed(ctx context.Context, units []string) error {
	for _, unit := range units {
		if err := exec.CommandContext(ctx, "systemctl", "reset-failed", unit).Run(); err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// system restores settings whose old values no file holds, and starts programs that ran before.
func (r *Reset) system(ctx context.Context) error {
	now, err := host.ReadState(ctx)
	if err != nil {
		return err
	}
	before := r.record.Before().System
	var errs []error
	for path, value := range now.Sysctls {
		if was, known := before.Sysctls[path]; known && was != value {
			if err := host.SetSysctl(path, was); err != nil {
				r.leaves("sysctl "+strings.ReplaceAll(path, "/", "."), "is %s, and was %s before; it cannot be set back: %v", value, was, err)
			}
		}
	}
	for _, swap := range before.Swaps {
		if !slices.Contains(now.Swaps, swap) {
			errs = append(errs, command.Run(ctx, r.Log, "swapon", swap))
		}
	}
	for _, unit := range before.Units {
		if !slices.Contains(now.Units, unit) && stillThere(ctx, unit) {
			errs = append(errs, command.Run(ctx, r.Log, "systemctl", "start", unit))
		}
	}
	errs = append(errs, r.firewall(ctx))
	for _, module := range now.Modules {
		if !slices.Contains(before.Modules, module) {
			_ = command.Run(ctx, r.Log, "modprobe", "--remove", "--quiet", module) // or something uses it, and it is named at the end
		}
	}
	return errors.Join(errs...)
}

// firewall makes the host's firewalls apply their settings, which are restored with the files.
func (r *Reset) firewall(ctx context.Context) error {
	if !r.Journal.Began(node.FirewallStep) {
		return nil
	}
	var errs []error
	active := firewall.Active(ctx)
	for _, w := range []firewall.Firewall{firewall.Firewalld, firewall.UFW} {
		switch {
		case slices.Contains(active, w):
			errs = append(errs, w.Reload(ctx, r.Log))
		case stillThere(ctx, string(w)): // it was disabled
			errs = append(errs, w.Restore(ctx, r.Log))
		}
	}
	return errors.Join(errs...)
}

// stillThere reports whether a unit is enabled: those of a session or a boot are transient.
func stillThere(ctx context.Context, unit string) bool {
	out, err := exec.CommandContext(ctx, "systemctl", "is-enabled", unit).Output()
	return err == nil && strings.TrimSpace(string(out)) == "enabled"
}

// Undoes describes what the reset will do to the host, for people, and which files it will write, remove and leave.
func (r *Reset) Undoes() (lines []string, undo baseline.Undo, err error) {
	if names := r.newPackages(); len(names) > 0 {
		lines = append(lines, "packages removed: "+strings.Join(names, " "))
	}
	if units := r.units(); len(units) > 0 {
		lines = append(lines, "services stopped and removed: "+strings.Join(units, " "))
	}
	var folders []string
	for _, folder := range node.ClusterFolders() {
		if _, err := os.Lstat(folder); err == nil && !r.record.Before().Folders[folder] {
			folders = append(folders, folder)
		}
	}
	if len(folders) > 0 {
		lines = append(lines, "folders removed: "+strings.Join(append(folders, r.options.Root), " "))
	}
	if data := r.DataFolders(); len(data) > 0 {
		verb := "data of volumes removed: "
		if r.options.KeepData {
			verb = "data of volumes kept: "
		}
		lines = append(lines, verb+strings.Join(data, " "))
	}
	undo, err = r.record.PlanUndo(r.elsewhere()...)
	return lines, undo, err
}
