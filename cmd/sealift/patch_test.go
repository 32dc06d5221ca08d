package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/isolation"
)

// kills is how often each command is killed.
const kills = 6

// patching is a folder with two bundles' packages, and with what commands put into their caches and temporary folders.
type patching struct {
	*testing.T
	dir string
}

func newPatching(t *testing.T) patching {
	p := patching{t, t.TempDir()}
	for version := range uint64(2) {
		p.writePackage(version)
		p.write(fmt.Sprintf("%d.yaml", version), fmt.Sprintf("apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec:\n  app: {version: \"%d\"}\n", version))
	}
	p.write("node", "#!/bin/sh\n")
	return p
}

func (p patching) at(name string) string { return filepath.Join(p.dir, name) }

func (p patching) write(name, text string) {
	p.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(p.at(name)), 0o755), os.WriteFile(p.at(name), []byte(text), 0o600)); err != nil {
		p.Fatal(err)
	}
}

// programText is a program, in which a few bytes differ between versions.
func programText(seed, version uint64) string {
	code, changes := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, version))
	program := make([]byte, 1_500_000)
	for at := range program {
		program[at] = byte(code.Uint32()) & 0x3f
		if version > 0 && changes.IntN(2000) == 0 {
			program[at]++
		}
	}
	return string(program)
}

// writePackage writes a package with programs.
func (p patching) writePackage(version uint64) {
	p.Helper()
	name := fmt.Sprint(version)
	pack := bundle.Package{Name: "app", Version: name, Platforms: []string{"linux/amd64"}}
	dir := bundle.AddOnDir(pack.Name, name)
	pack.Files = []bundle.File{bundle.BytesFile(dir+"/Manifest", 0o644, nil), bundle.BytesFile(dir+"/install.sh", 0o644, []byte("app() { true; }\n"))}
	for n := range uint64(4) {
		pack.Files = append(pack.Files, bundle.BytesFile(fmt.Sprintf("%s/assets/program-%d", dir, n), 0o755, []byte(programText(n, version))))
	}
	var out bytes.Buffer
	if _, err := bundle.WritePackage(p.Context(), &out, pack, bundle.WriteOptions{}); err != nil {
		p.Fatal(err)
	}
	p.write("store/app-"+name+".tar.gz", out.String())
}

// command prepares the real program, with temporary files and a cache below a folder of this name.
func (p patching) command(run string, args ...string) *exec.Cmd {
	p.Helper()
	self, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(p.at(run+"/tmp"), 0o755)
	}
	if err != nil {
		p.Fatal(err)
	}
	cmd := exec.CommandContext(p.Context(), self, args...)
	cmd.Args[0], cmd.Dir = "sealift", p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "TMPDIR="+p.at(run+"/tmp"), "SEALIFT_CACHE="+p.at(run+"/cache"), "SEALIFT_SEALIFT="+p.at("node"))
	return cmd
}

// run runs the program to its end, and returns how long that took.
func (p patching) run(run string, args ...string) time.Duration {
	p.Helper()
	begin := time.Now()
	if out, err := p.command(run, args...).CombinedOutput(); err != nil {
		p.Fatalf("sealift %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return time.Since(begin)
}

// bundles makes a bundle, and one that adds to it with patches.
func (p patching) bundles() (old, update string) {
	p.Helper()
	p.run("old", "bundle", "-f", "0.yaml", "--store", "store", "--out", "old/out/cluster.tar.gz", "--sealift-preflight=")
	p.run("once", p.update("once")...)
	return "old/out/cluster.tar.gz", "once/out/update.tar.gz"
}

// update is the command that makes the second bundle.
func (p patching) update(run string) []string {
	return []string{"bundle", "-f", "1.yaml", "--store", "store", "--out", run + "/out/update.tar.gz", "--since", "old/out/cluster.tar.gz", "--patch", "--sealift-preflight="}
}

// killed runs the program and kills it after a part of the time that it takes. It reports whether the program was still running.
func (p patching) killed(takes time.Duration, part float64, run string, args ...string) bool {
	p.Helper()
	cmd := p.command(run, args...)
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	time.Sleep(time.Duration(float64(takes) * part))
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()         // the state says it
	return !cmd.ProcessState.Exited()
}

// files lists the files below folders of a run, without those that only say when a cache was used.
func (p patching) files(run string) (names []string) {
	p.Helper()
	for _, folder := range []string{"/tmp", "/cache", "/out"} {
		err := filepath.WalkDir(p.at(run+folder), func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				names = append(names, strings.TrimPrefix(path, p.at(run)))
			}
			return err
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			p.Fatal(err)
		}
	}
	return names
}

// TestKilledPatchingIsRepeated kills the program with SIGKILL while it makes patches, and while it applies them.
func TestKilledPatchingIsRepeated(t *testing.T) {
	p := newPatching(t)
	old, update := p.bundles()
	takes := p.run("other", p.update("other")...)
	want, err := os.ReadFile(p.at(update))
	if err != nil || len(want) > 2_000_000 {
		t.Fatalf("a bundle of %d bytes, %v", len(want), err)
	}
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	running := 0
	for range kills {
		if p.killed(takes, random.Float64(), "again", p.update("again")...) {
			running++
		}
	}
	p.run("again", p.update("again")...)
	got, err := os.ReadFile(p.at("again/out/update.tar.gz"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("after %d kills, the bundle has %d bytes instead of %d, or other ones: %v", running, len(got), len(want), err)
	}
	if left := p.files("again"); !slices.Equal(left, p.files("once")) {
		t.Errorf("after %d kills there are %v, and without kills %v", running, left, p.files("once"))
	}

	verify := []string{"verify", update, "--base", old}
	takes = p.run("verified", verify...)
	for range kills {
		if p.killed(takes, random.Float64(), "verified", verify...) {
			running++
		}
	}
	p.run("verified", verify...)
	if left := p.files("verified"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	if running == 0 {
		t.Error("each run ended before it was killed")
	}
}

func TestTooSmallFolderForPatchesIsRefusedBeforeInstall(t *testing.T) {
	p := newPatching(t)
	old, update := p.bundles()
	disk := isolation.NewDisk(t, 16<<20)
	install := []string{"install", "--bundle", update, "--base", old, "--root", "node-root", "--exclude-builtin", "--ignore", "--plan"}
	plan := func() (int, string) {
		cmd := p.command("installed", install...)
		cmd.Env = append(cmd.Env, "TMPDIR="+disk.Path())
		out, _ := cmd.CombinedOutput() // the exit code says it
		return cmd.ProcessState.ExitCode(), string(out)
	}
	free := disk.Fill()
	if code, out := plan(); code != app.ExitRefused || !strings.Contains(out, disk.Path()+" has 0 MiB free, and making files of patches takes 8 MiB there: 8 MiB are missing") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	free()
	if code, out := plan(); code != app.ExitDone || strings.Contains(out, "missing") {
		t.Errorf("with space: exit code %d\n%s", code, out)
	}
}

// TestCurlGetsPatchesFromServer downloads a bundle, and later what changed since then.
func TestCurlGetsPatchesFromServer(t *testing.T) {
	p := newPatching(t)
	s := startServer(t, "--store", p.at("store"), "--patch")
	curl := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "curl", append([]string{"-fsS", "--retry", "30"}, args...)...)
		cmd.Dir = p.dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("curl %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	var urls []string
	for version := range 2 {
		id := path.Base(curl("--data-binary", fmt.Sprintf("@%d.yaml", version), "http://"+s.address+"/installer"))
		urls = append(urls, "http://"+s.address+"/bundle/"+id+".tar.gz")
	}
	curl("-o", "old.tar.gz", urls[0])
	old, err := bundle.Open(p.at("old.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	curl("-o", "update.tar.gz", urls[1]+"?patch&since="+old.Digest)
	if info, err := os.Stat(p.at("update.tar.gz")); err != nil || info.Size() > 2_000_000 {
		t.Errorf("%v, %v", info, err)
	}
	p.run("verified", "verify", "update.tar.gz", "--base", "old.tar.gz")
}
