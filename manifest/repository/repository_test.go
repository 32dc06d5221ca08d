package repository_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/manifest/repository"
)

const secret = "TOKEN=hunter2\n"

// tree creates a repository beside a file that nothing in it may read, and returns the folder of both.
func tree(t *testing.T, versioned bool) (base, addOn string) {
	t.Helper()
	base = t.TempDir()
	repo := filepath.Join(base, "repo")
	addOn = filepath.Join(repo, "addons", "demo", "1.0")
	for _, dir := range []string{addOn, filepath.Join(repo, "files"), filepath.Join(base, "other", "demo", "1.0")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{"secret": secret, "repo/files/a": "a", "repo/addons/demo/shared": "shared", "other/demo/1.0/Manifest": "stranger"}
	if versioned {
		files["repo/.git/config"] = secret
		files["other/.git/config"] = secret
		files["other/demo/.git/config"] = secret
	}
	for name, content := range files {
		name = filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return base, addOn
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

// read opens a file that a Manifest in addOn names.
func read(t *testing.T, addOn, name string) (string, error) {
	t.Helper()
	r, err := repository.Of(addOn)
	if err != nil {
		return "", err
	}
	defer r.Close()
	below, err := r.Name(addOn, name)
	if err != nil {
		return "", err
	}
	f, err := r.Open(below)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return string(data), err
}

func TestFilesOfRepositoryAreRead(t *testing.T) {
	for _, versioned := range []bool{true, false} {
		_, addOn := tree(t, versioned)
		link(t, "../shared", filepath.Join(addOn, "link"))
		link(t, "../../../files", filepath.Join(addOn, "folder"))
		for name, want := range map[string]string{"link": "shared", "../../../files/a": "a", "folder/a": "a", "./../shared": "shared"} {
			if got, err := read(t, addOn, name); err != nil || got != want {
				t.Errorf("versioned %v: %s is %q, %v", versioned, name, got, err)
			}
		}
	}
}

func TestFilesOutsideRepositoryAreRefused(t *testing.T) {
	base, addOn := tree(t, true)
	link(t, filepath.Join(base, "secret"), filepath.Join(addOn, "absolute"))
	link(t, "../../../../secret", filepath.Join(addOn, "relative"))
	link(t, base, filepath.Join(addOn, "outside"))
	link(t, "../../../.git/config", filepath.Join(addOn, "credentials"))
	link(t, "../../../.git", filepath.Join(addOn, "versions"))
	for _, name := range []string{
		"/proc/self/environ", filepath.Join(base, "secret"), "../../../../secret", "absolute", "relative", "outside/secret",
		"../../../.git/config", "credentials", "versions/config", "../../../../../../../../../../etc/passwd",
	} {
		if got, err := read(t, addOn, name); !errors.Is(err, repository.ErrOutside) {
			t.Errorf("%s gave %q, %v", name, got, err)
		}
	}
}

// TestHardLinkDoesNotLeadOut has hard links to a file beside the repository, to one of version control, and to others of the repository.
func TestHardLinkDoesNotLeadOut(t *testing.T) {
	base, addOn := tree(t, true)
	for name, to := range map[string]string{"outside": "secret", "versioned": "repo/.git/config", "inside": "repo/files/a"} {
		if err := os.Link(filepath.Join(base, to), filepath.Join(addOn, name)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := repository.Of(addOn)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for name, refused := range map[string]bool{"outside": true, "versioned": true, "inside": false} {
		f, err := r.Open("addons/demo/1.0/" + name)
		if errors.Is(err, repository.ErrOutside) != refused || !refused && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = f.Close()
		}
	}
}

func TestSubmoduleReachesItsOtherVersions(t *testing.T) {
	_, addOn := tree(t, true)
	if err := os.WriteFile(filepath.Join(addOn, ".git"), []byte("gitdir: ../../../.git/modules/demo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t, addOn, "../shared"); err != nil || got != "shared" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, name := range []string{".git", "../../../files/a", "../../demo/1.0/.git"} {
		if got, err := read(t, addOn, name); !errors.Is(err, repository.ErrOutside) {
			t.Errorf("%s gave %q, %v", name, got, err)
		}
	}
}

func TestLinkIsNotARepository(t *testing.T) {
	base, _ := tree(t, true)
	link(t, filepath.Join(base, "other", "demo"), filepath.Join(base, "repo", "addons", "linked"))
	link(t, filepath.Join(base, "other"), filepath.Join(base, "repo", "packages"))
	for _, addOn := range []string{"addons/linked/1.0", "packages/demo/1.0"} {
		if got, err := read(t, filepath.Join(base, "repo", addOn), "Manifest"); !errors.Is(err, repository.ErrOutside) {
			t.Errorf("%s gave %q, %v", addOn, got, err)
		}
	}
}

func TestPipeDoesNotBlock(t *testing.T) {
	_, addOn := tree(t, false)
	if err := unix.Mkfifo(filepath.Join(addOn, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, addOn, "pipe"); err == nil {
		t.Error("a pipe was opened")
	}
}

// TestMissingFileIsNamedByFullPath has no version control: the repository is a folder that the person may not think of.
func TestMissingFileIsNamedByFullPath(t *testing.T) {
	_, addOn := tree(t, false)
	_, err := read(t, addOn, "none")
	var failed *fs.PathError
	if want := filepath.Join(addOn, "none"); !errors.As(err, &failed) || failed.Path != want || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want one about %s", err, want)
	}
}
