package upstreamcases

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/short"
)

func TestFetchVerifiesDigests(t *testing.T) {
	short.Skip(t, "git and zstd")
	t.Parallel()
	dir := t.TempDir()
	repository := filepath.Join(dir, "git", "owner", "name")
	if err := os.MkdirAll(filepath.Join(repository, "addons"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(repository, "addons", "Manifest"), []byte("yum socat\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("Manifest", filepath.Join(repository, "addons", "link")); err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", repository, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	git("config", "uploadpack.allowFilter", "true")
	git("add", "-A")
	git("commit", "-q", "-m", "one")
	commit := git("rev-parse", "--short=9", "HEAD")
	file := fmt.Sprintf("%x", sha256.Sum256([]byte("yum socat\n")))
	folder := fmt.Sprintf("%x", sha256.Sum256([]byte(file+"  ./addons/Manifest\n"+file+"  ./addons/link\n")))
	pins := filepath.Join(dir, "pins")
	pin := func(rows ...[]string) {
		text := "# case\n"
		for _, row := range rows {
			text += strings.Join(row, "\t") + "\n"
		}
		if err := os.WriteFile(pins, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fetch := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), "./fetch.sh", filepath.Join(dir, "cases"))
		cmd.Env = append(os.Environ(), "SEALIFT_CASES_GIT=file://"+filepath.Join(dir, "git"), "SEALIFT_CASES_PINS="+pins)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}

	pin([]string{"a/one", "owner/name", commit, "addons/Manifest", file}, []string{"a/two.tar.zst", "owner/name", commit, "addons", folder})
	if out, err := fetch(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "cases/a/one")); err != nil || string(text) != "yum socat\n" {
		t.Errorf("%q, %v", text, err)
	}
	unpacked := t.TempDir()
	if err := unpack(filepath.Join(dir, "cases/a/two.tar.zst"), unpacked); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(unpacked, "addons/link")); err != nil || string(text) != "yum socat\n" {
		t.Errorf("%q, %v", text, err)
	}

	pin([]string{"b/one", "owner/name", commit, "addons/Manifest", folder}, []string{"b/two", "owner/name", "0123456789", "addons/Manifest", file},
		[]string{"b/three", "owner/name", commit, "addons/Manifest", file})
	out, err := fetch()
	if err == nil || !strings.Contains(out, "b/one: owner/name at "+git("rev-parse", "HEAD")+" has sha256 "+file+", want "+folder) ||
		!strings.Contains(out, "has no commit 0123456789") {
		t.Errorf("%v\n%s", err, out)
	}
	for name, want := range map[string]bool{"one": false, "two": false, "three": true} {
		if _, err := os.Stat(filepath.Join(dir, "cases/b", name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
