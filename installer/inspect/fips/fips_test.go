package fips_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/installer/inspect/fips"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// process writes a process into a folder like /proc.
func process(t *testing.T, root, id string, program []byte, environment string) {
	t.Helper()
	dir := filepath.Join(root, "proc", id)
	program = append(program, make([]byte, 64)...)
	for name, data := range map[string][]byte{filepath.Join(root, "bin", id): program, filepath.Join(dir, "environ"): []byte(environment)} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(root, "bin", id), filepath.Join(dir, "exe")); err != nil {
		t.Fatal(err)
	}
}

func TestProcessWithoutActiveModuleIsFound(t *testing.T) {
	root := t.TempDir()
	certified := fixture.GoProgram("go1.26.1", "path example.org/good", "build GOFIPS140=v1.0.0-c2097c7c", "build DefaultGODEBUG=fips140=on")
	process(t, root, "8", certified, "A=b\x00")
	process(t, root, "12", certified, "A=b\x00GODEBUG=fips140=off\x00")
	process(t, root, "100", fixture.GoProgram("go1.26.1", "path example.org/plain"), "")
	process(t, root, "7", []byte("\x7fELF of another language"), "")
	if err := os.MkdirAll(filepath.Join(root, "proc", "2"), 0o755); err != nil { // of the kernel, without a program
		t.Fatal(err)
	}
	got, err := fips.Look(root)
	if err != nil {
		t.Fatal(err)
	}
	program := func(id string) string { return "process " + id + " " + filepath.Join(root, "bin", id) }
	want := fips.Report{Others: 1, Kind: "processes", Findings: []fips.Finding{
		{What: "kernel", Found: "FIPS mode is off; boot it with fips=1"},
		{What: program("8"), Found: "module v1.0.0-c2097c7c, active", Approved: true},
		{What: program("12"), Found: "module v1.0.0-c2097c7c, not active"},
		{What: program("100"), Found: "module none"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := got.Refused(); n != 3 {
		t.Errorf("%d findings are refused, want 3", n)
	}
}

func TestKernelAndEncryptionOfSecretsAreFound(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"proc/sys/crypto/fips_enabled": "1\n", "etc/kubernetes/encryption/config.yaml": "kind: EncryptionConfiguration\n"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := fips.Look(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Findings) != 2 || !got.Findings[0].Approved || got.Findings[1].What != "encryption of Secrets" || got.Findings[1].Approved {
		t.Errorf("found %+v", got.Findings)
	}
}
