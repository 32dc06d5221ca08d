package upstream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/fixture"
)

func TestPatchCopiesAndChangesModule(t *testing.T) {
	from, to := fixture.Folder(t, map[string]string{"go.mod": "module a\n", "a.go": "package a\n\nconst A = 1\n", "cmd/x/main.go": "package main\n", "b/b.go": "package b\n"}), t.TempDir()
	p := Patch{
		Module: "a", Without: []string{"cmd"}, Files: map[string]string{"b/b.go": "package b // changed\n", "c/c.go": "package c\n"},
		Edits: []Edit{{"a.go", "A = 1", "A = 2"}}, Why: "a test",
	}
	if err := p.copy(from, to); err != nil {
		t.Fatal(err)
	}
	if err := p.apply(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a.go": "package a\n\nconst A = 2\n", "b/b.go": "package b // changed\n", "c/c.go": "package c\n", "go.mod": "module a\n", "cmd": ""} {
		got, err := os.ReadFile(filepath.Join(to, name))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q (%v), want %q", name, got, err, want)
		}
	}
	// the text is not there any more
	if err := p.apply(t.Context(), to); err == nil || !strings.Contains(err.Error(), `a.go has "A = 1" 0 times, want once`) {
		t.Errorf("got %v", err)
	}
}
