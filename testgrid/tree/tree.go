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

// New makes a folder with the given files by path, which is removed with the test. Content that begins with "-> " makes a
// symbolic link.
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
