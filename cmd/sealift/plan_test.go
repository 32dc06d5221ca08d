package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/short"
)

// planHost is a host for one command line: every folder that an install may change is a private one, mounted over the real one
// for that process only.
type planHost struct {
	*testing.T
	dir      string   // its folders, by the names that they are mounted over
	fleeting []string // what may change below dir
}

// mounted are the folders of the host, each with its name in planHost.dir.
func mounted() map[string]string {
	return map[string]string{"/etc": "etc", "/usr/local": "usr-local", "/var/log": "var-log", "/var/lib": "var-lib", "/root": "root"}
}

func newPlanHost(t *testing.T) *planHost {
	t.Helper()
	short.AsRoot(t, "a host whose files are mounted")
	h := &planHost{T: t, dir: t.TempDir()}
	for _, folder := range append(slices.Collect(maps.Values(mounted())), "work", "tmp", "usr-local/bin", "etc/kubernetes/manifests") {
		h.made(os.MkdirAll(filepath.Join(h.dir, folder), 0o755))
	}
	// dpkg knows itself here: a host whose dpkg does not is one of rpm's, whose queries write next to its database.
	h.write("var-lib/dpkg/status", "Package: dpkg\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.21.22\nMaintainer: nobody\nDescription: packages\n")
	for _, name := range []string{"os-release", "passwd", "group", "hosts", "resolv.conf", "nsswitch.conf"} {
		text, err := os.ReadFile(filepath.Join("/etc", name))
		if !errors.Is(err, fs.ErrNotExist) {
			h.made(err)
			h.write("etc/"+name, string(text))
		}
	}
	return h
}

func (h *planHost) made(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// write writes a file below the host's folders and returns its path.
func (h *planHost) write(name, text string) string {
	h.Helper()
	path := filepath.Join(h.dir, name)
	h.made(os.MkdirAll(filepath.Dir(path), 0o755))
	h.made(fixture.WriteProgram(path, text))
	return path
}

// sealift runs a command line on the host, in its folder work, and returns what it printed.
func (h *planHost) sealift(in string, args ...string) (code int, out string) {
	h.Helper()
	self, err := os.Executable()
	h.made(err)
	script := "set -e\n"
	for over, name := range mounted() {
		script += fmt.Sprintf("mount --bind %s %s\n", filepath.Join(h.dir, name), over)
	}
	cmd := exec.CommandContext(h.Context(), "unshare", append([]string{"--mount", "sh", "-c", script + `exec "$@"`, "sh", "bash", "-c", `exec -a sealift "$0" "$@"`, self}, args...)...)
	cmd.Dir, cmd.Stdin = filepath.Join(h.dir, "work"), strings.NewReader(in)
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(h.dir, "tmp"), "HOME=/root", "SEALIFT_CACHE="+filepath.Join(h.dir, "root/cache"))
	said, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.Fatalf("%v: %s", err, said)
	}
	return cmd.ProcessState.ExitCode(), string(said)
}

// snapshot is everything about the host's files that a command could change, times of change too: a file that was made and removed
// again shows in its folder.
func (h *planHost) snapshot() map[string]string {
	h.Helper()
	all := map[string]string{}
	h.made(filepath.WalkDir(h.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		line := fmt.Sprint(info.Mode(), stat.Uid, stat.Gid, info.Size(), stat.Nlink, stat.Mtim, stat.Ctim)
		if info.Mode().IsRegular() {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			sum := sha256.New()
			if _, err := io.Copy(sum, f); err != nil {
				return err
			}
			line += fmt.Sprintf(" %x", sum.Sum(nil))
		}
		if target, err := os.Readlink(path); err == nil {
			line += " " + target
		}
		if below, err := filepath.Rel(h.dir, path); err != nil || !slices.Contains(h.fleeting, below) {
			all[path] = line
		}
		return nil
	}))
	return all
}

// planned runs a command line that must leave the host unchanged, and returns its output. more takes snapshots of further folders.
func (h *planHost) planned(in string, args []string, more ...func() map[string]string) string {
	h.Helper()
	look := func() map[string]string {
		all := h.snapshot()
		for _, one := range more {
			maps.Copy(all, one())
		}
		return all
	}
	before := look()
	code, out := h.sealift(in, args...)
	after := look()
	if code != app.ExitDone && code != app.ExitRefused { // what this machine lacks is reported, and refused
		h.Errorf("sealift %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	for name := range before {
		if _, there := after[name]; !there {
			h.Errorf("sealift %s removed %s", strings.Join(args, " "), name)
		}
	}
	for name, is := range after {
		if was, there := before[name]; !there {
			h.Errorf("sealift %s made %s", strings.Join(args, " "), name)
		} else if was != is {
			h.Errorf("sealift %s changed %s\nfrom %s\nto   %s", strings.Join(args, " "), name, was, is)
		}
	}
	return out
}

// planCases has a test for every command that only plans: those with the flag --plan or --dry-run, and those called plan.
func planCases() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"sealift install --plan":                 planOfInstall,
		"sealift join --plan":                    planOfJoin,
		"sealift reset --plan":                   planOfReset,
		"sealift node remove --plan":             planOfNodeRemove,
		"sealift adopt --plan":                   planOfAdopt,
		"sealift node readdress --plan":          planOfReaddress,
		"sealift node load-balancer --plan":      planOfLoadBalancer,
		"sealift upgrade --plan":                 planOfUpgrade,
		"sealift upgrade undo --plan":            planOfUndo,
		"sealift certs renew --plan":             planOfRenewal,
		"sealift restore --plan":                 planOfRestore,
		"sealift snapshot prune --plan":          planOfPrune,
		"sealift channel plan":                   planOfChannel,
		"sealift channel apply --plan":           planOfChannelApply,
		"sealift channel release --plan":         planOfChannelRelease,
		"sealift apply --dry-run":                dryRunOfApply,
		"sealift cache prune --dry-run":          dryRunOfCachePrune,
		"sealift certs rotate-encryption --plan": planOfRotation,
		"sealift certs rotate-ca --plan":         planOfRotationOfCAs,
		"sealift push --plan":                    planOfPush,
		"sealift addon apply --plan":             planOfAddOnApply,
		"sealift addon remove --plan":            planOfAddOnRemove,
		"sealift images prune --plan":            planOfImagesPrune,
		"sealift images add --plan":              planOfImagesAdd,
		"sealift images remove --plan":           planOfImagesRemove,
	}
}

// TestPlansChangeNothing walks the whole command line.
func TestPlansChangeNothing(t *testing.T) {
	cases := planCases()
	found := map[string]bool{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Name() == "plan" {
			found[cmd.CommandPath()] = true
		}
		for _, flag := range []string{"plan", "dry-run"} {
			if cmd.Flags().Lookup(flag) != nil {
				found[cmd.CommandPath()+" --"+flag] = true
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(&app.App{}))
	for name := range found {
		if cases[name] == nil {
			t.Errorf("%s has no case that compares the host before and after", name)
		}
	}
	for name, test := range cases {
		if !found[name] {
			t.Errorf("there is no command %s", name)
		}
		t.Run(strings.TrimPrefix(name, "sealift "), test)
	}
}
