package hostpath

import (
	"os"
	"os/exec"
	"testing"
)

// TestCallersPathIsExtended has the paths of RHEL's sudo (replicatedhq/kURL#2951), Debian's su and cron, and of NixOS.
func TestCallersPathIsExtended(t *testing.T) {
	for path, want := range map[string]string{
		"/sbin:/bin:/usr/sbin:/usr/bin": Folders,
		"/usr/local/bin:/usr/bin:/bin":  Folders,
		"/usr/bin:/bin":                 Folders,
		"":                              Folders,
		".::bin:/usr/bin/":              Folders,
		"/root/bin:/usr/bin:/run/current-system/sw/bin:/root/bin/": Folders + ":/root/bin:/run/current-system/sw/bin",
	} {
		if got := Extended(path); got != want {
			t.Errorf("%q becomes %q, want %q", path, got, want)
		}
	}
}

func TestTemporaryFilesGoToExistingFolder(t *testing.T) {
	folder := t.TempDir()
	file := folder + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for given, lost := range map[string]string{"": "", folder: "", folder + "/gone": folder + "/gone", file: file} {
		t.Setenv("TMPDIR", given)
		if got, err := Temporary(); err != nil || got != lost {
			t.Errorf("%q: %q, %v, want %q", given, got, err, lost)
		}
		f, err := os.CreateTemp("", "x")
		if err != nil {
			t.Errorf("%q: %v", given, err)
			continue
		}
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
}

func TestExtendReachesThisProcessAndItsPrograms(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin")
	if err := Extend(); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("ldconfig"); err != nil {
		t.Error(err)
	}
	out, err := exec.Command("sh", "-c", `printf %s "$PATH"`).Output()
	if err != nil || string(out) != Folders || os.Getenv("PATH") != Folders {
		t.Errorf("programs see PATH %q, this process %q: %v", out, os.Getenv("PATH"), err)
	}
}
