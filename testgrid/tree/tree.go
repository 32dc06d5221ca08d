// Package tree writes folders of small files for tests.
package tree

import (
	"os"
	"path/filepath"
	"strings"
)

// TB is the part of testing.TB that is needed.
type TB interface {
	Helper()
	TempDir() string
	Fatalf(string, ...any)
}

// New makes a folder of the given files, by path, that goes with the test. Content that begins with "-> " is a link to what follows.
func New(t TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		name := filepath.Join(root, path)
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if target, link := strings.CutPrefix(content, "-> "); err == nil && link {
			err = os.Symlink(target, name)
		} else if err == nil {
			err = os.WriteFile(name, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatalf("write a file for the test: %v", err)
		}
	}
	return root
}
