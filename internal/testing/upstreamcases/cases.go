// Package upstreamcases finds upstream cases: files of users of kURL, kOps, addon-operator and Open Cluster Management, and the results of
// the original programs. They are not part of the project. SEALIFT_CASES names their folder; its default is ../shared/cases beside the
// checkout. A test skips if its cases are missing. fetch.sh fetches the public ones.
package upstreamcases

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// folder is the environment variable that names the folder of the cases.
const folder = "SEALIFT_CASES"

// Path returns the path of a file or folder of the cases. If it is missing, the test is skipped.
func Path(t testing.TB, name string) string {
	t.Helper()
	root, err := root()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, filepath.FromSlash(name))
	switch _, err := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
		t.Logf("missing: %s", file)
		t.Skipf("needs upstream cases, which %s lacks: set %s, or fetch the public ones with internal/testing/upstreamcases/fetch.sh", root, folder) // the same text in all tests, for package skips
	case err != nil:
		t.Fatal(err)
	}
	return file
}

// root returns the folder of the cases. It exists if SEALIFT_CASES names it; the default may be missing.
func root() (string, error) {
	if dir := os.Getenv(folder); dir != "" {
		if found, err := os.Stat(dir); err != nil {
			return "", fmt.Errorf("%s: %w", folder, err)
		} else if !filepath.IsAbs(dir) || !found.IsDir() {
			return "", fmt.Errorf("%s: %q is not an absolute path of a folder", folder, dir)
		}
		return dir, nil
	}
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(filepath.Dir(dir), "shared", "cases"), nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not set, and its default needs a go.mod above %s", folder, start)
		}
	}
}

// KurlAddOns unpacks eleven of kURL's own add-ons, unchanged, and returns the folder with addons/<name>/<version>.
func KurlAddOns(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := unpack(Path(t, "kurl/addons.tar.zst"), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func unpack(archive, dir string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	plain, err := zstd.NewReader(file)
	if err != nil {
		return err
	}
	defer plain.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for entries := tar.NewReader(plain); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := write(root, path.Clean(header.Name), entries, header.FileInfo().Mode().Perm()); err != nil {
			return err
		}
	}
}

func write(root *os.Root, name string, content io.Reader, mode fs.FileMode) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, mode|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
