package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// releaseIn makes a release of a program in a folder, and returns its install.sh and the archive for this machine.
func releaseIn(t *testing.T, dir, version, program string) (script, archive string) {
	t.Helper()
	name := "sealift-" + version + "-linux-" + runtime.GOARCH
	tree := filepath.Join(t.TempDir(), name)
	for file, text := range map[string]string{"lib/sealift/sealift": program, "share/doc/sealift/CHANGELOG.md": version} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(tree, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := fixture.WriteProgram(filepath.Join(tree, file), text); err != nil {
			t.Fatal(err)
		}
	}
	archive = filepath.Join(dir, name+".tar.gz")
	if out, err := exec.CommandContext(t.Context(), "tar", "-C", filepath.Dir(tree), "-czf", archive, name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data := read(t, archive)
	sum := sha256.Sum256(data)
	digests := hex.EncodeToString(sum[:]) + "  " + name + ".tar.gz"
	put(t, filepath.Join(dir, "SHA256SUMS"), digests+"\n")
	script = filepath.Join(dir, "install.sh")
	put(t, script, strings.NewReplacer("@VERSION@", version, "@URL@", dir, "@DIGESTS@", digests).Replace(string(read(t, "install.sh"))))
	return script, archive
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func install(t *testing.T, script string, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", append([]string{script}, args...)...).CombinedOutput()
	return string(out), err
}

const program = "#!/bin/sh\necho \"$0 $*\"\n"

func TestScriptInstallsAndReplacesRelease(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "with space")
	for _, version := range []string{"v1.0.0", "v1.1.0"} {
		script, _ := releaseIn(t, t.TempDir(), version, program)
		if out, err := install(t, script, "--prefix", prefix); err != nil || out != prefix+"/bin/sealift version\n" {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := string(read(t, filepath.Join(prefix, "share/doc/sealift/CHANGELOG.md"))); got != version {
			t.Errorf("installed %s, not %s", got, version)
		}
	}
	entries, err := os.ReadDir(filepath.Join(prefix, "lib"))
	if err != nil || len(entries) != 1 {
		t.Errorf("lib has %v %v", entries, err)
	}
}

func TestChangedArchiveIsNotInstalled(t *testing.T) {
	script, archive := releaseIn(t, t.TempDir(), "v1.0.0", program)
	put(t, archive, string(read(t, archive))+"x")
	prefix := filepath.Join(t.TempDir(), "prefix")
	if out, err := install(t, script, "--prefix", prefix); err == nil || !strings.Contains(out, "is damaged or was changed") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(prefix); !os.IsNotExist(err) {
		t.Errorf("something was changed: %v", err)
	}
}

func TestScriptKeepsNodeProgram(t *testing.T) {
	script, _ := releaseIn(t, t.TempDir(), "v1.0.0", program)
	prefix := t.TempDir()
	if err := os.Mkdir(filepath.Join(prefix, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(prefix, "bin/sealift"), "the node's")
	if out, err := install(t, script, "--prefix", prefix); err == nil || !strings.Contains(out, "Choose another folder with --prefix") {
		t.Errorf("%v\n%s", err, out)
	}
	if got := string(read(t, filepath.Join(prefix, "bin/sealift"))); got != "the node's" {
		t.Errorf("replaced with %q", got)
	}
}

// TestFullDiskIsNamed fills the folder that the archive is unpacked in, and the one that it is installed in.
func TestFullDiskIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	script, _ := releaseIn(t, t.TempDir(), "v1.0.0", program+strings.Repeat("#", 3<<20))
	for name, row := range map[string]struct{ full, want string }{
		"the temporary folder": {"/mnt/tmp", "no space left on /mnt, where /mnt/tmp/"},
		"the prefix":           {"/mnt/prefix", "no space left on /mnt, where /mnt/prefix/lib is: sealift needs 4 MB there"},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			run := "mount -t tmpfs -o size=1m none /mnt && mkdir /mnt/tmp /mnt/prefix && export TMPDIR=" + tmp + " && "
			if row.full == "/mnt/tmp" {
				run = strings.Replace(run, tmp, row.full, 1)
			}
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", run+"sh "+script+" --prefix /mnt/prefix; code=$?; ls /mnt/prefix/lib >&2; exit $code")
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), row.want) || !strings.Contains(string(out), "free some") || strings.Contains(string(out), "\nsealift.new\n") {
				t.Errorf("%v\n%s\nwant %s", err, out, row.want)
			}
		})
	}
}

// TestSignatureIsChecked signs as a release does, and lets openssl read it.
func TestSignatureIsChecked(t *testing.T) {
	fixture.Unapproved(t, fips.PrivateKeys)
	t.Setenv("SEALIFT_KEY_PASSPHRASE", "secret")
	dir, keys := t.TempDir(), t.TempDir()
	script, archive := releaseIn(t, dir, "v1.0.0", program)
	for _, name := range []string{"ours", "other"} {
		key, err := signature.Generate()
		if err != nil {
			t.Fatal(err)
		}
		private, err := key.Marshal([]byte("secret"))
		if err != nil {
			t.Fatal(err)
		}
		public, err := key.Public()
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(keys, name+".key"), string(private))
		put(t, filepath.Join(keys, name+".pub"), string(public.Marshal()))
	}
	if err := run([]string{"sign", filepath.Join(keys, "ours.key"), filepath.Join(dir, "SHA256SUMS")}); err != nil {
		t.Fatal(err)
	}
	if out, err := install(t, script, "--prefix", t.TempDir(), "--key", filepath.Join(keys, "ours.pub")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := install(t, script, "--prefix", t.TempDir(), "--key", filepath.Join(keys, "other.pub")); err == nil || !strings.Contains(out, "is not signed with") {
		t.Errorf("another key: %v\n%s", err, out)
	}
	put(t, filepath.Join(dir, "SHA256SUMS"), strings.Repeat("0", 64)+"  "+filepath.Base(archive)+"\n")
	if out, err := install(t, script, "--prefix", t.TempDir(), "--key", filepath.Join(keys, "ours.pub")); err == nil || !strings.Contains(out, "is not signed with") {
		t.Errorf("changed digests: %v\n%s", err, out)
	}
}

// TestBillOfMaterialsDescribesProgram describes this test.
func TestBillOfMaterialsDescribesProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "sbom.json")
	if err := run([]string{"sbom", "v1.0.0", out, self}); err != nil {
		t.Fatal(err)
	}
	var document struct {
		Packages []struct{ Name, VersionInfo string }
	}
	if err := json.Unmarshal(read(t, out), &document); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, p := range document.Packages {
		found[p.Name] = p.VersionInfo
	}
	if found[filepath.Base(self)] != "v1.0.0" || found["stdlib"] != runtime.Version() || !strings.HasPrefix(found["github.com/spdx/tools-golang"], "v") {
		t.Errorf("%v", found)
	}
	if err := run([]string{"sbom", "v1.0.0", out, "main.go"}); err == nil {
		t.Error("what is not a program is described")
	}
	if err := run(nil); err == nil || !strings.Contains(err.Error(), "usage") {
		t.Errorf("without a command: %v", err)
	}
}
