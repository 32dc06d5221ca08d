// Package released has the files that releases wrote, for the tests of their readers: docs/releasing.md promises which formats stay
// readable. The files are in testdata/released/RELEASE, and never change after that release.
package released

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Variable names the release, such as v0.2, whose files the tests write before they read them; 'make formats' sets it.
const Variable = "SEALIFT_WRITE_FORMATS"

// Format is one file of each release.
type Format struct {
	Name  string                          // of the file, such as journal.jsonl
	Write func(t *testing.T, file string) // writes the file as this code does
	Read  func(t *testing.T, file string) // reads a file of any release, and checks all of its content
}

// Test reads the file of each release. A release without any fails: files are added for all formats at once.
func Test(t *testing.T, f Format) {
	t.Helper()
	folder := filepath.Join(root(t), "testdata", "released")
	if release := os.Getenv(Variable); release != "" {
		file := filepath.Join(folder, release, f.Name)
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s exists, and files of a release never change: %v", file, err)
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		f.Write(t, file)
	}
	releases, err := os.ReadDir(folder)
	if err != nil || len(releases) == 0 {
		t.Fatalf("%s has no releases: %v", folder, err)
	}
	for _, release := range releases {
		t.Run(release.Name(), func(t *testing.T) { f.Read(t, filepath.Join(folder, release.Name(), f.Name)) })
	}
}

// Put writes a file, for Format.Write.
func Put(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Data returns the content of a file, for Format.Read.
func Data(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// root returns the folder of the module.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}
