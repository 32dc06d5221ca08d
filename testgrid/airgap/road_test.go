package airgap_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/scratch"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/mirror"
)

const repository = "../.."

// The versions that the README installs, and the Kubernetes from which tests upgrade.
var (
	current        = releases.Current("kubernetes").Version
	previous       = releases.Current("kubernetes").Before().Version
	currentRuntime = releases.Current("containerd").Version
	currentNetwork = releases.Current("flannel").Version
	pauseImage     = "registry.k8s.io/pause:" + releases.Current("kubernetes").With["pause"]
)

// scriptBound ends a script that hangs. An upgrade of four nodes over two minor versions takes half an hour.
const scriptBound = time.Hour

func TestMain(m *testing.M) {
	code := m.Run()
	if err := deliveries.remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// deliveries are the bundles that this run has made, each once. Tests that run side by side share them.
var deliveries workshop

type workshop struct {
	mu    sync.Mutex
	dir   *scratch.Dir
	built map[string]delivery
	parts map[string]bool // folders of roads
}

func (w *workshop) remove() error {
	if w.dir == nil {
		return nil
	}
	return w.dir.Remove()
}

// addOns are those of the demo's Installer, with a release of Kubernetes.
func addOns(kubernetes string) []string {
	list := []string{"containerd/" + currentRuntime, "kubernetes/" + kubernetes}
	for _, name := range []string{"flannel", "local-path-provisioner", "metrics-server"} {
		list = append(list, name+"/"+releases.Current(name).Version)
	}
	return list
}

// delivery is a bundle on a USB disk, and the files from which it was built.
type delivery struct {
	sealift  string
	config   string // sealift.yaml with the mirrors
	cache    string
	packages string
	usb      string
}

// build goes from Manifests to the bundle, for one release of Kubernetes on one system. Tests share its output.
func build(t *testing.T, kubernetes, system string) delivery {
	t.Helper()
	short.Skip(t, "a host of the lab")
	return deliveries.once(t, kubernetes+"-"+system, func(r delivery) {
		r.mirrored(t, mirror.Of("v"+kubernetes), func() {
			args := []string{"build", "--out", r.packages, "--target", system, "--config", r.config, "--cache", r.cache}
			for _, a := range addOns(kubernetes) {
				args = append(args, "addons/"+a)
			}
			r.run(t, args...)
		})
		demo, err := os.ReadFile(filepath.Join(repository, "testgrid/demo/installer.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		r.bundle(t, strings.ReplaceAll(string(demo), current, kubernetes))
	})
}

// once makes a delivery with this name, with its programs, and fills it, unless a test of this run has done so.
func (w *workshop) once(t *testing.T, name string, fill func(delivery)) delivery {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if r, ok := w.built[name]; ok {
		return r
	}
	if w.dir == nil {
		dir, err := scratch.NewIn("/var/tmp")
		if err != nil {
			t.Fatal(err)
		}
		w.dir = dir
	}
	dir := filepath.Join(w.dir.Path(), name)
	r := delivery{sealift: filepath.Join(dir, "sealift"), config: filepath.Join(dir, "sealift.yaml"), cache: filepath.Join(w.dir.Path(), "cache"),
		packages: filepath.Join(dir, "packages"), usb: filepath.Join(dir, "usb")}
	for _, d := range []string{r.packages, r.usb} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.link(t, dir)
	fill(r)
	w.built[name] = r
	return r
}

// part returns a folder of the delivery that only some tests need. fill creates it, unless a test of this run has done so.
func (r delivery) part(t *testing.T, name string, fill func(dir string)) string {
	t.Helper()
	deliveries.mu.Lock()
	defer deliveries.mu.Unlock()
	dir := filepath.Join(r.dir(), name)
	if !deliveries.parts[dir] {
		fill(dir)
		deliveries.parts[dir] = true
	}
	return dir
}

// link puts the programs into a folder. They are compiled once.
func (w *workshop) link(t *testing.T, dir string) {
	t.Helper()
	programs := filepath.Join(w.dir.Path(), "programs")
	if w.built == nil {
		compile(t, programs, "./cmd/sealift", "./cmd/sealift-node", "./cmd/sealift-preflight")
		w.built, w.parts = map[string]delivery{}, map[string]bool{}
	}
	for _, name := range []string{"sealift", "sealift-node", "sealift-preflight"} {
		if err := os.Link(filepath.Join(programs, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// mirrored calls do while the lab's mirror runs and the road's sealift.yaml names it.
func (r delivery) mirrored(t *testing.T, o mirror.Options, do func()) {
	t.Helper()
	o.Progress = func(line string) { t.Log(line) }
	m, err := mirror.Serve(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.WriteConfig(r.config); err != nil {
		t.Fatal(err)
	}
	do()
}

// bundle makes the bundle of an Installer out of the packages, on the USB disk.
func (r delivery) bundle(t *testing.T, text string) {
	t.Helper()
	installer := filepath.Join(r.dir(), "installer.yaml")
	if err := os.WriteFile(installer, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.run(t, "bundle", "-f", installer, "--store", r.packages, "--out", filepath.Join(r.usb, "cluster.tar.gz"))
	shell(t, r.usb, "tar xzf cluster.tar.gz --occurrence=1 install.sh")
}

// compile builds programs into dir.
func compile(t *testing.T, dir string, programs ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", dir + "/"}, programs...)...)
	cmd.Dir, cmd.Env = repository, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// run runs sealift on the building machine and returns its output.
func (r delivery) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), r.sealift, args...)
	var out, errOut bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = repository, &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("sealift %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errOut.String())
	}
	return out.String()
}

// node is a booted host.
type node struct {
	*host.Host
	t *testing.T
}

// run runs a script in the host and returns its output and exit code.
func (n node) run(script string) (string, int) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), scriptBound)
	defer cancel()
	var out bytes.Buffer
	err := n.Exec(ctx, host.Command{Args: []string{"bash", "-c", script}, Stdout: &out, Stderr: &out})
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), exit.ExitCode()
	}
	if err != nil {
		n.t.Fatalf("%s: %v\n%s", script, err, out.String())
	}
	return out.String(), 0
}

func (n node) must(script string) string {
	n.t.Helper()
	out, code := n.run(script)
	if code != 0 {
		n.t.Fatalf("%s: exit %d\n%s", script, code, out)
	}
	return out
}

// refuses runs a script that must fail with a code and a reason.
func (n node) refuses(script string, code int, reason string) {
	n.t.Helper()
	if out, got := n.run(script); got != code || !strings.Contains(out, reason) {
		n.t.Errorf("%s: exit %d, want %d and %q in\n%s", script, got, code, reason, out)
	}
}
