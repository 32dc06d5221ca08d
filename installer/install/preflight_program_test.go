package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/preflight"
)

// carrying is an install of a bundle whose sealift-preflight and sealift-console have this text. It counts how often they are fetched.
func carrying(t *testing.T, root, text string, fetched *int) *Install {
	t.Helper()
	var packed bytes.Buffer
	programs := []bundle.File{bundle.BytesFile(bundle.PreflightName, 0o755, []byte(text)), bundle.BytesFile(bundle.ConsoleName, 0o755, []byte(text))}
	members, err := bundle.Render(t.Context(), programs, bundle.WriteOptions{})
	if err == nil {
		_, err = bundle.WriteBundle(t.Context(), &packed, bundle.Bundle{Members: members})
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := bundle.NewArchive(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
	if err != nil {
		t.Fatal(err)
	}
	index, _ := a.Raw()
	a, err = bundle.NewUnpacked(index, nil, func(bundle.Entry) (io.ReadCloser, error) {
		*fetched++
		return io.NopCloser(strings.NewReader(text)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return &Install{job: job{options: Options{Scope: node.Scope{Root: root}, Binary: filepath.Join(root, ".install-1", "sealift")}, contents: contents{archive: a}}, Session: &node.Session{Log: node.NewLog(t.TempDir(), lifecycle.Installing, nil)}}
}

func TestProgramIsExtractedOnce(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, ".install-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	var fetched int
	run := func(text string, asks int, keeps bool) {
		t.Helper()
		i := carrying(t, root, text, &fetched)
		for range asks {
			name, err := i.program(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(name); err != nil || string(got) != text || !isProgram(name) {
				t.Errorf("%s is %q, %v", name, got, err)
			}
		}
		if keeps {
			if err := i.keepProgram(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
		if left, _ := filepath.Glob(filepath.Join(root, ".install-1", "*")); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
	for _, row := range []struct {
		name, text string
		asks       int
		keeps      bool
		want       int // times that it was fetched so far
	}{
		{"an install that is not confirmed keeps nothing", "one", 2, false, 1},
		{"the next one keeps what it took for its checks", "one", 2, true, 2},
		{"a run that goes on uses what was kept", "one", 1, true, 2},
		{"another bundle has another one", "two", 1, true, 3},
		{"without checks it is taken for the node alone", "three", 0, true, 4},
	} {
		run(row.text, row.asks, row.keeps)
		if fetched != row.want {
			t.Errorf("%s: fetched %d times, want %d", row.name, fetched, row.want)
		}
		if got, err := os.ReadFile(filepath.Join(root, bundle.PreflightName)); row.keeps && (err != nil || string(got) != row.text) {
			t.Errorf("%s: kept %q, %v", row.name, got, err)
		}
	}
}

func TestConsoleIsKeptOnControlPlanes(t *testing.T) {
	for name, row := range map[string]struct {
		join *Join
		want bool
	}{
		"the first control plane": {nil, true},
		"another control plane":   {&Join{ControlPlane: true}, true},
		"a worker":                {&Join{}, false},
	} {
		root, fetched := t.TempDir(), 0
		for range 2 { // the second time it is there
			i := carrying(t, root, "console", &fetched)
			i.options.Join = row.join
			i.addOns = []addOn{{info: bundle.PackageInfo{Name: kubernetesCapability}}}
			if err := i.keepConsole(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		_, err := os.Stat(filepath.Join(root, bundle.ConsoleName))
		if kept := err == nil; kept != row.want || fetched != map[bool]int{true: 1}[row.want] {
			t.Errorf("%s: kept: %t, fetched %d times", name, kept, fetched)
		}
	}
}

func TestProgramIsFoundBesideSealiftOrOnNode(t *testing.T) {
	root, beside := t.TempDir(), t.TempDir()
	if got, err := FindProgram(root, beside); got != "" || err != nil {
		t.Errorf("found %q, %v", got, err)
	}
	for _, name := range []string{filepath.Join(root, bundle.PreflightName), filepath.Join(beside, preflight.ProgramName)} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _ := FindProgram(root, beside); got == name {
			t.Errorf("%s cannot be run", name)
		}
		if err := os.Chmod(name, 0o700); err != nil {
			t.Fatal(err)
		}
		if got, err := FindProgram(root, beside); got != name || err != nil {
			t.Errorf("found %q, not %q: %v", got, name, err)
		}
	}
}

// TestUntrustedProgramIsNotRun has a sealift-preflight where other users could have put or could change it.
func TestUntrustedProgramIsNotRun(t *testing.T) {
	short.AsRoot(t, "files of other users")
	const stranger = 65534
	for name, change := range map[string]func(dir, program string) error{
		"it belongs to another user":           func(_, program string) error { return os.Chown(program, stranger, 0) },
		"its folder belongs to another user":   func(dir, _ string) error { return os.Chown(dir, stranger, 0) },
		"others may write it":                  func(_, program string) error { return os.Chmod(program, 0o777) },
		"a group may write it":                 func(_, program string) error { return os.Chmod(program, 0o775) },
		"others may write its folder":          func(dir, _ string) error { return os.Chmod(dir, 0o777) },
		"its folder is like /tmp":              func(dir, _ string) error { return os.Chmod(dir, 0o777|os.ModeSticky) },
		"others may write a folder further up": func(dir, _ string) error { return os.Chmod(filepath.Dir(dir), 0o777) },
		"it is a link to what others may write": func(dir, program string) error {
			target := filepath.Join(filepath.Dir(dir), "other")
			return errors.Join(os.Rename(program, target), os.Chmod(target, 0o777), os.Symlink(target, program))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, beside := t.TempDir(), filepath.Join(t.TempDir(), "bin")
			program, ran := filepath.Join(beside, preflight.ProgramName), filepath.Join(root, "ran")
			if err := errors.Join(os.Mkdir(beside, 0o755), fixture.WriteProgram(program, "#!/bin/sh\ntouch "+ran+"\n"), change(beside, program)); err != nil {
				t.Fatal(err)
			}
			if got, err := FindProgram(root, beside); got != "" || !errors.Is(err, errUnsafeProgram) {
				t.Errorf("found %q, %v", got, err)
			}
			i := &Install{job: job{options: Options{Scope: node.Scope{Root: root}, Binary: filepath.Join(beside, "sealift")}, contents: contents{archive: &bundle.Archive{}, spec: parseSpec(t, "")}}}
			s := []preflight.Specification{{Name: "x", Kind: preflight.HostPreflight, Text: []byte("spec: {}")}}
			got, err := i.external(t.Context(), preflight.Node{}, s, RunAll)
			if err != nil || len(got) != 1 || got[0].Status != preflight.Warn || !strings.Contains(got[0].Message, program+" is not run: ") {
				t.Errorf("%+v, %v", got, err)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("it ran as root")
			}
		})
	}
}

// TestProgramComesFromBundle has another program beside sealift, in a folder of root's: the bundle's runs.
func TestProgramComesFromBundle(t *testing.T) {
	root := t.TempDir()
	var fetched int
	i := carrying(t, root, "of the bundle", &fetched)
	beside := filepath.Join(filepath.Dir(i.options.Binary), preflight.ProgramName)
	if err := errors.Join(os.Mkdir(filepath.Dir(beside), 0o755), fixture.WriteProgram(beside, "of somebody")); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = i.Close() }()
	name, err := i.program(t.Context())
	if text, _ := os.ReadFile(name); err != nil || string(text) != "of the bundle" {
		t.Errorf("%s is %q, %v", name, text, err)
	}
	again := carrying(t, root, "of somebody", &fetched)
	defer func() { _ = again.Close() }()
	if name, err := again.program(t.Context()); err != nil || name != beside || fetched != 1 {
		t.Errorf("one with the same digest is fetched all the same: %s, %v", name, err)
	}
}

// gate is a bundle of which nothing can be read, once it is armed, before a file exists. It makes a file when somebody tries.
type gate struct {
	*bytes.Reader
	armed        atomic.Bool
	tried, opens string
}

func (g *gate) ReadAt(p []byte, off int64) (int, error) {
	if g.armed.Load() {
		if err := os.WriteFile(g.tried, nil, 0o600); err != nil {
			return 0, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := poll.Until(ctx, 10*time.Millisecond, nil, func(context.Context) (bool, error) {
			_, err := os.Stat(g.opens)
			return err == nil, nil
		}); err != nil {
			return 0, err
		}
	}
	return g.Reader.ReadAt(p, off)
}

// TestBundleIsVerifiedWhileAddOnsAreAsked has a program for the checks of add-ons that ends only when the bundle is being read, and a bundle
// that can be read only when the program has run.
func TestBundleIsVerifiedWhileAddOnsAreAsked(t *testing.T) {
	short.AsRoot(t, "an install")
	text := writeSpec(t, map[string]map[string]any{"goldpinger": {"version": "1.0.0"}})
	data := kurlBundle(t, text, txtar.Parse([]byte("-- goldpinger/1.0.0/Manifest --\n-- goldpinger/1.0.0/install.sh --\ngoldpinger() { :; }\n-- goldpinger/1.0.0/host-preflight.yaml --\n"+
		"apiVersion: troubleshoot.sh/v1beta2\nkind: HostPreflight\nmetadata: {name: goldpinger}\nspec: {collectors: [{cpu: {}}], analyzers: []}\n")).Files)
	dir := t.TempDir()
	g := &gate{Reader: bytes.NewReader(data), tried: filepath.Join(dir, "tried"), opens: filepath.Join(dir, "opens")}
	i, err := prepare(t, data, text)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = i.Close() }()
	if i.archive, err = bundle.NewArchive(g, int64(len(data))); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(i.options.Root, bundle.PreflightName)
	if err := errors.Join(os.MkdirAll(filepath.Dir(program), 0o755), fixture.WriteProgram(program, fmt.Sprintf("#!/bin/sh\nuntil [ -e %s ]; do sleep 0.01; done\n: >%s\n"+
		`echo '{"results": [{"check": "goldpinger", "status": "pass", "message": "asked"}]}'`, g.tried, g.opens))); err != nil {
		t.Fatal(err)
	}
	g.armed.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := i.Preflight(ctx, PreflightOptions{})
	if err != nil {
		t.Fatal(err)
	}
	verified := slices.IndexFunc(r.Results, func(r preflight.Result) bool { return r.Check == "bundle" && r.Status == preflight.Pass })
	asked := slices.IndexFunc(r.Results, func(r preflight.Result) bool { return r.Check == "goldpinger" && r.Message == "asked" })
	if verified < 0 || asked < verified {
		t.Errorf("the bundle's result is number %d, the add-on's %d of %+v", verified, asked, r.Results)
	}
}

// TestBundleWithPatchesIsVerifiedAfterOtherChecks: the files that its patches make would take the space that these measure.
func TestBundleWithPatchesIsVerifiedAfterOtherChecks(t *testing.T) {
	short.AsRoot(t, "an install")
	t.Setenv("TMPDIR", t.TempDir())
	text := writeSpec(t, map[string]map[string]any{"goldpinger": {"version": "1.0.0"}})
	data := kurlBundle(t, text, txtar.Parse([]byte("-- goldpinger/1.0.0/Manifest --\n-- goldpinger/1.0.0/install.sh --\ngoldpinger() { :; }\n")).Files)
	i, err := prepare(t, data, text)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = i.Close() }()
	for _, patched := range []bool{false, true} {
		dir := t.TempDir()
		g := &gate{tried: filepath.Join(dir, "tried"), opens: dir}
		content := data
		if patched {
			content = similarFiles(t)
		}
		g.Reader = bytes.NewReader(content)
		if i.archive, err = bundle.NewArchive(g, int64(len(content))); err != nil {
			t.Fatal(err)
		}
		g.armed.Store(true)
		check, release := i.verification(t.Context())
		began := func() bool { _, err := os.Stat(g.tried); return err == nil }
		if patched {
			if began() {
				t.Error("the bundle with patches is read before the other checks")
			}
			check.Probe(t.Context(), new(preflight.Reporter))
		}
		release()
		if !began() {
			t.Errorf("the bundle was not read, patched: %t", patched)
		}
	}
}

// similarFiles returns a bundle with a file that a patch makes of another one.
func similarFiles(t *testing.T) []byte {
	t.Helper()
	random, p := rand.New(rand.NewPCG(1, 1)), bundle.Package{Name: "demo", Version: "1.0.0", Platforms: []string{"linux/amd64"}}
	var code []byte
	for len(code) < 3<<20 {
		code = append(code, byte(random.Uint32())&0x3f)
	}
	for _, name := range []string{"one", "two"} {
		code[0]++
		p.Files = append(p.Files, bundle.BytesFile("addons/demo/1.0.0/assets/"+name, 0o755, bytes.Clone(code)))
	}
	var packed, out bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &packed, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	a, err := bundle.NewArchive(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
	if err != nil {
		t.Fatal(err)
	}
	b := bundle.Bundle{Packages: []*bundle.Archive{a}}
	set, err := delta.NewSpool(t.TempDir()).Within(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	b.Members, b.Patched = set.Members, set.Entries
	if _, err := bundle.WriteBundle(t.Context(), &out, b); err != nil || len(set.Entries) != 1 {
		t.Fatalf("%d files are made, %v", len(set.Entries), err)
	}
	return out.Bytes()
}

// TestProgramsRunFromExecutableFolder: hardening profiles mount /tmp with noexec.
func TestProgramsRunFromExecutableFolder(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	if got := runnable(first, second); got != first {
		t.Errorf("got %s, want the first", got)
	}
	if got := runnable(filepath.Join(first, "gone"), second); got != second {
		t.Errorf("got %s, want the one that exists", got)
	}
	if err := unix.Mount("none", first, "tmpfs", unix.MS_NOEXEC, "size=64k"); errors.Is(err, unix.EPERM) {
		t.Skip("mounts want root")
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(first, 0) }()
	if got := runnable(first, second); got != second {
		t.Errorf("got %s, which runs no programs", got)
	}
	if got := runnable(first); got != first {
		t.Errorf("with no other folder: %s", got)
	}
}
