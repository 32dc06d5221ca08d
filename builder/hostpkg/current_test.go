package hostpkg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/fixture"
)

func TestAptResultIsReusedUntilInputsChange(t *testing.T) {
	a, c := newPublished(t), openCache(t)
	asked := filepath.Join(t.TempDir(), "asked")
	tool := filepath.Join(t.TempDir(), "apt-get")
	if err := fixture.WriteProgram(tool, "#!/bin/sh\necho \"$1\" >> "+asked+"\nexec apt-get \"$@\"\n"); err != nil {
		t.Fatal(err)
	}
	target := a.target()
	resolve := func() (answer, questions string) {
		t.Helper()
		if err := os.WriteFile(asked, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		source := a.source(c) // as another run stores it
		source.options.AptGet = tool
		resolved, err := source.Resolve(t.Context(), target, "amd64", []string{"tool"})
		if err != nil {
			t.Fatal(err)
		}
		return listed(resolved), strings.Join(strings.Fields(string(mustRead(t, asked))), " ")
	}
	directory := func(pattern string) string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(c.Dir(), "apt", "*", pattern))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		return found[0]
	}
	steps := []struct {
		name      string
		before    func()
		answer    string
		questions string
	}{
		{"at first", func() {}, "tool=1.0", "update install install"}, // one for the packages of a minimal host
		{"not when nothing has changed", func() {}, "tool=1.0", ""},
		{"when an index has changed", func() { a.add("tool", "2.0"); a.publish() }, "tool=2.0", "update install install"},
		{"not after that", func() {}, "tool=2.0", ""},
		{"when it has verified the indexes long ago", func() {
			data := mustRead(t, directory(readingFile))
			old := strings.Replace(string(data), time.Now().Format("2006-"), "2001-", 1)
			if err := os.WriteFile(directory(readingFile), []byte(old), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "tool=2.0", "update"},
		{"when what it has read is gone", func() {
			if err := os.Remove(directory("state/lists/*InRelease")); err != nil {
				t.Fatal(err)
			}
		}, "tool=2.0", "update"},
		{"when other keys are trusted", func() { target.Sources[0].SignedBy = copied(t, a.keyring) }, "tool=2.0", "update install install"},
	}
	for _, step := range steps { // in this order: each starts from the result of the one before
		t.Run(step.name, func(t *testing.T) {
			step.before()
			if answer, questions := resolve(); answer != step.answer || questions != step.questions {
				t.Errorf("answered %s after apt-get %s; want %s after %s", answer, questions, step.answer, step.questions)
			}
		})
	}
}

func copied(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(to, mustRead(t, path), 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestListNamesMatchApt(t *testing.T) {
	tests := map[string]string{
		"http://archive.example.com/debian/dists/test/InRelease":          "archive.example.com_debian_dists_test_InRelease",
		"http://127.0.0.1:8080/dists/test/InRelease":                      "127.0.0.1:8080_dists_test_InRelease",
		"https://user:pass@example.com/a_b/dists/test/InRelease":          "example.com_a%5fb_dists_test_InRelease",
		"http://archive.example.com/ubuntu/dists/noble-updates/InRelease": "archive.example.com_ubuntu_dists_noble-updates_InRelease",
	}
	for address, want := range tests {
		if got := listName(address); got != want {
			t.Errorf("%s is kept as %s, want %s", address, got, want)
		}
	}
	for suite, want := range map[string]string{"bookworm": "dists/bookworm/InRelease", "bookworm/updates": "dists/bookworm/updates/InRelease", "/": "InRelease", "./": "./InRelease", "flat/": "flat/InRelease"} {
		if got := indexOf(suite); got != want {
			t.Errorf("the index of %s is %s, want %s", suite, got, want)
		}
	}
}
