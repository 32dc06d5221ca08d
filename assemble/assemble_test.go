package assemble_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

var platform = runtime.GOOS + "/" + runtime.GOARCH

// publish puts a package with the given files into a folder.
func publish(t *testing.T, dir, name, version, platform string, files map[string]string) {
	t.Helper()
	p := bundle.Package{Name: name, Version: version, Platforms: []string{platform}}
	for path, text := range files {
		p.Files = append(p.Files, bundle.BytesFile(bundle.AddOnDir(name, version)+"/"+path, 0o644, []byte(text)))
	}
	f, err := os.Create(filepath.Join(dir, name+"-"+version+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := bundle.WritePackage(t.Context(), f, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// request is a bundle of two add-ons in a fresh store.
func request(t *testing.T, installer string) assemble.Request {
	t.Helper()
	dir := t.TempDir()
	publish(t, dir, "base", "1.0", platform, map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": "provides: [thing]\n"})
	publish(t, dir, "user", "2.0", platform, map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": "requires: [thing]\noptions:\n  size: {type: integer}\n"})
	publish(t, dir, "foreign", "1.0", "plan9/mips", map[string]string{"Manifest": "", "install.sh": ""})
	if err := os.WriteFile(filepath.Join(dir, "junk-1.0.tar.gz"), []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	i, err := spec.Parse("installer.yaml", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: test}\nspec:\n"+installer))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "sealift")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho sealift got: \"$@\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	member, err := assemble.ProgramMember(t.Context(), bundle.BinaryName, binary, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = member.Close() })
	return assemble.Request{Installer: i, Packages: packages.Source{Store: s}, Programs: []assemble.Program{{Platform: platform, Sealift: member}}, Commands: []string{"install", "join"}}
}

const both = "  user: {version: '2.0'}\n  base: {version: '1.0'}\n"

func assembled(t *testing.T, r assemble.Request) []byte {
	t.Helper()
	plan, err := assemble.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	var buf bytes.Buffer
	if err := plan.Write(t.Context(), &buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestBundleHasAllFilesOfInstall(t *testing.T) {
	r := request(t, both)
	data := assembled(t, r)
	if !bytes.Equal(data, assembled(t, r)) {
		t.Error("the same request gave other bytes")
	}
	a, err := bundle.NewArchive(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"install.sh", "join.sh", "upgrade.sh", "tasks.sh", "installer.yaml", "bin/sealift", "addons/base/1.0/install.sh", "addons/user/2.0/index.json"} {
		if _, ok := a.Entry(name); !ok {
			t.Errorf("no %s", name)
		}
	}
}

// TestBundleCarriesUpgradeSteps adds a second version of an add-on, older than the Installer's.
func TestBundleCarriesUpgradeSteps(t *testing.T) {
	r := request(t, both)
	r.Steps = []spec.AddOn{{Name: "base", Version: "0.9"}}
	if _, err := assemble.Prepare(t.Context(), r); err == nil || !strings.Contains(err.Error(), "base-0.9.tar.gz") {
		t.Errorf("a step that the store lacks: %v", err)
	}
	dir := t.TempDir()
	for version, text := range map[string]string{"1.0": "provides: [thing]\n", "0.9": "description: older\n"} {
		publish(t, dir, "base", version, platform, map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": text})
	}
	publish(t, dir, "user", "2.0", platform, map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": "requires: [thing]\n"})
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	r.Packages.Store = s
	data := assembled(t, r)
	a, err := bundle.NewArchive(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Versions("base"); !slices.Equal(got, []string{"1.0", "0.9"}) {
		t.Errorf("the bundle has base %v", got)
	}
	if _, ok := a.Entry("addons/base/0.9/install.sh"); !ok {
		t.Error("the files of the step are missing")
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for name, row := range map[string]struct {
		installer string
		want      []string
	}{
		"missing packages, all of them": {"  user: {version: '3.0'}\n  other: {version: '1'}\n", []string{"installer.yaml:5:3: the store has no package user-3.0.tar.gz; it has user-2.0.tar.gz", "other-1.tar.gz; build it"}},
		"missing provider":              {"  user: {version: '2.0'}\n", []string{"user requires thing"}},
		"other platform":                {"  foreign: {version: '1.0'}\n", []string{"foreign-1.0.tar.gz is for plan9/mips", "--platform " + platform}},
		"damaged package":               {"  junk: {version: '1.0'}\n", []string{"package junk-1.0.tar.gz: not an archive"}},
		"unknown option":                {"  base: {version: '1.0'}\n  user: {version: '2.0', sise: 3}\n", []string{"installer.yaml:6:3", `"size"`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := assemble.Prepare(t.Context(), request(t, row.installer))
			for _, want := range row.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
		})
	}
}

// script runs install.sh in a folder, as 'cat install.sh | bash -s args' does.
func script(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	return scriptNamed(t, dir, "install.sh", args...)
}

func scriptNamed(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{"-s"}, args...)...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(text)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func unpack(t *testing.T, data []byte, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cluster.tar.gz"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "tar", append([]string{"xzf", "cluster.tar.gz"}, names...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

func TestInstallScriptStartsCarriedBinary(t *testing.T) {
	short.AsRoot(t, "scripts that change a host")
	data := assembled(t, request(t, both))
	packed := unpack(t, data, "install.sh")
	if out, err := script(t, packed, "airgap", "yes"); err != nil || !strings.Contains(out, "sealift got: install --bundle cluster.tar.gz --yes") {
		t.Errorf("packed: %v: %s", err, out)
	}
	unpacked := unpack(t, data)
	if out, err := script(t, unpacked, "airgap", "--plan", "ha", "flannel.podCIDR=$(id)"); err != nil || !strings.Contains(out, "sealift got: install --bundle . --plan ha flannel.podCIDR=$(id)") {
		t.Errorf("unpacked: %v: %s", err, out)
	}
	parts := unpack(t, data, "install.sh", "bin/sealift")
	if err := os.Rename(filepath.Join(parts, "cluster.tar.gz"), filepath.Join(parts, "cluster.part-002")); err != nil {
		t.Fatal(err)
	}
	if out, err := script(t, parts, "airgap"); err != nil || !strings.Contains(out, "sealift got: install --bundle .\n") {
		t.Errorf("parts: %v: %s", err, out)
	}
	if left, _ := filepath.Glob("/var/lib/sealift/.install-*"); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestRequiredSignaturesAreChecked(t *testing.T) {
	keys := make([]*signature.Key, 2)
	var public []signature.PublicKey
	for n := range keys {
		key, half := fixture.SigningKey(t)
		keys[n], public = key, append(public, half)
	}
	for name, row := range map[string]struct {
		key  *signature.Key
		want string
	}{"signed": {keys[0], ""}, "not signed": {nil, "it has no signature"}, "signed by a stranger": {keys[1], "another key signed it"}} {
		t.Run(name, func(t *testing.T) {
			r := request(t, "  base: {version: '1.0'}\n")
			dir := t.TempDir()
			f, err := os.Create(filepath.Join(dir, "base-1.0.tar.gz"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			p := bundle.Package{Name: "base", Version: "1.0", Platforms: []string{platform}}
			for _, file := range []string{"Manifest", "install.sh"} {
				p.Files = append(p.Files, bundle.BytesFile(bundle.AddOnDir("base", "1.0")+"/"+file, 0o644, nil))
			}
			if _, err := bundle.WritePackage(t.Context(), f, p, bundle.WriteOptions{Key: row.key}); err != nil {
				t.Fatal(err)
			}
			if r.Packages.Store, err = store.Open(dir); err != nil {
				t.Fatal(err)
			}
			r.Packages.Signers = public[:1]
			plan, err := assemble.Prepare(t.Context(), r)
			if err == nil {
				defer plan.Close()
			}
			if (err == nil) != (row.want == "") || err != nil && (!strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "--require-signed")) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

func TestInstallScriptTakesBundleOfAnyName(t *testing.T) {
	short.AsRoot(t, "scripts that change a host")
	data := assembled(t, request(t, both))
	for _, tool := range []string{"tar", "busybox"} {
		t.Run(tool, func(t *testing.T) {
			path, err := exec.LookPath(tool)
			if err != nil {
				t.Skipf("%s is not there: %v", tool, err)
			}
			bin := t.TempDir()
			if err := os.Symlink(path, filepath.Join(bin, "tar")); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			dir := unpack(t, data, "install.sh")
			const name = "cluster_2026-11-21T10:00:00.tar.gz"
			for _, beside := range []string{"cluster_2026-11-21T10:00:00.licenses.tar.gz", "vulnerabilities.tar.gz"} {
				if err := os.WriteFile(filepath.Join(dir, beside), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Rename(filepath.Join(dir, "cluster.tar.gz"), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if out, err := script(t, dir, "airgap"); err != nil || !strings.Contains(out, "sealift got: install --bundle "+name) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func TestInstallScriptRefuses(t *testing.T) {
	short.AsRoot(t, "scripts that change a host")
	data := assembled(t, request(t, both))
	replace := func(dir, from, to string) {
		name := filepath.Join(dir, "install.sh")
		text, _ := os.ReadFile(name)
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(string(text), from, to)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, row := range map[string]struct {
		spoil func(dir string)
		args  []string
		want  string
		code  int
	}{
		"another platform": {func(dir string) { replace(dir, "    'Linux ", "    'Linux of ") }, []string{"airgap"}, "the bundle is for " + platform, 3},
		"no bundle":        {func(dir string) { _ = os.Remove(filepath.Join(dir, "cluster.tar.gz")) }, []string{"airgap"}, "no bundle here", 1},
		"two bundles":      {func(dir string) { _ = os.WriteFile(filepath.Join(dir, "b.tar.gz"), nil, 0o600) }, []string{"airgap"}, "more than one archive", 1},
		"another binary":   {func(dir string) { replace(dir, " digest=", " digest=0") }, []string{"airgap"}, "not the one that this script was made with", 1},
		"truncated bundle": {func(dir string) { _ = os.Truncate(filepath.Join(dir, "cluster.tar.gz"), 300) }, []string{"airgap"}, "copy it again", 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := unpack(t, data, "install.sh")
			row.spoil(dir)
			out, err := script(t, dir, row.args...)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != row.code || !strings.Contains(out, row.want) {
				t.Errorf("got %v: %s; want exit %d and %q", err, out, row.code, row.want)
			}
		})
	}
}

// TestInstallScriptNamesWhereSealiftCannotRun has file systems for /var/lib/sealift on which it cannot be unpacked or run.
func TestInstallScriptNamesWhereSealiftCannotRun(t *testing.T) {
	short.AsRoot(t, "scripts that change a host")
	data := assembled(t, request(t, both))
	packed, unpacked := unpack(t, data, "install.sh"), unpack(t, data)
	const full = "mount -t tmpfs -o size=64k none /var/lib/sealift && dd if=/dev/zero of=/var/lib/sealift/other bs=4k count=16 status=none"
	for name, row := range map[string]struct{ dir, mount, want string }{
		"full, packed":   {packed, full, "no space left for /var/lib/sealift, which is on /var/lib/sealift (none): sealift needs 1 MB there, and 0 MB are free; free some"},
		"full, unpacked": {unpacked, full, "no space left for /var/lib/sealift, which is on /var/lib/sealift (none): sealift needs 1 MB there, and 0 MB are free; free some"},
		"read-only":      {packed, "mount -t tmpfs -o ro none /var/lib/sealift", "nothing can be written below /var/lib/sealift: mount its file system for writing"},
		"noexec":         {packed, "mount -t tmpfs -o noexec none /var/lib/sealift", "no program can be run from /var/lib/sealift: mount its file system without the option noexec"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "bash", "-c", "mount -t tmpfs none /var/lib && mkdir /var/lib/sealift && "+row.mount+" && cat install.sh | bash -s airgap")
			cmd.Dir = row.dir
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(string(out), row.want) || strings.Contains(string(out), "damaged") {
				t.Errorf("got %v: %s; want exit 3 and %q", err, out, row.want)
			}
		})
	}
}

// TestConsoleProgramIsCarriedIfNamed has a sealift-console, or none.
func TestConsoleProgramIsCarriedIfNamed(t *testing.T) {
	for _, named := range []bool{false, true} {
		r := request(t, both)
		dir := t.TempDir()
		publish(t, dir, "base", "1.0", platform, map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": "provides: [thing]\n"})
		publish(t, dir, "user", "2.0", platform, map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": "requires: [thing]\n"})
		s, err := store.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		r.Packages.Store = s
		const text = "#!/bin/sh\necho console\n"
		if named {
			program := filepath.Join(dir, "sealift-console")
			if err := os.WriteFile(program, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			console, err := assemble.ProgramMember(t.Context(), bundle.ConsoleName, program, "")
			if err != nil {
				t.Fatal(err)
			}
			defer console.Close()
			r.Programs[0].Console = console
		}
		data := assembled(t, r)
		a, err := bundle.NewArchive(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		if entry, carried := a.Entry(bundle.ConsoleName); carried != named || carried && entry.Size != int64(len(text)) {
			t.Errorf("named: %t, carried: %t, %d bytes", named, carried, entry.Size)
		}
	}
}

// TestPreflightProgramIsCarriedIfUsed has sealift-preflight, which is larger than sealift, beside the nodes' sealift.
func TestPreflightProgramIsCarriedIfUsed(t *testing.T) {
	for name, row := range map[string]struct {
		installer string
		files     map[string]string // of add-on base
		keep      bool
		want      bool
	}{
		"nothing uses it":            {both, nil, false, false},
		"it is asked for":            {both, nil, true, true},
		"checks of an add-on":        {both, map[string]string{"host-preflight.yaml": "kind: HostPreflight\n"}, false, true},
		"a support bundle":           {both, map[string]string{"troubleshoot.yaml": "kind: SupportBundle\n"}, false, true},
		"a hook that may name some":  {both, map[string]string{"install.sh": "base_preflights() {\n  :\n}\n"}, false, true},
		"checks of the Installer":    {both + "  kurl: {hostPreflights: {kind: HostPreflight, spec: {}}}\n", nil, false, true},
		"another option of kURL's":   {both + "  kurl: {hostPreflightIgnore: true}\n", nil, false, false},
		"a file of another location": {both, map[string]string{"yaml/troubleshoot.yaml": "kind: SupportBundle\n"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, row.installer)
			dir := t.TempDir()
			files := map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": "provides: [thing]\n"}
			maps.Copy(files, row.files)
			publish(t, dir, "base", "1.0", platform, files)
			publish(t, dir, "user", "2.0", platform, map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": "requires: [thing]\n"})
			s, err := store.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(dir, "sealift-preflight")
			if row.want { // otherwise nothing may read it
				if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r.Packages.Store, r.KeepPreflight = s, row.keep
			r.Programs[0].Preflight = assemble.NewLateMember(bundle.PreflightName, program, "")
			defer r.Programs[0].Preflight.Close()
			data := assembled(t, r)
			a, err := bundle.NewArchive(bytes.NewReader(data), int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			if _, carried := a.Entry(bundle.PreflightName); carried != row.want {
				t.Errorf("carried: %t, want %t", carried, row.want)
			}
		})
	}
}
