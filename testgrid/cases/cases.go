// Package cases finds the samples of users' real files beside a work tree, in ../shared/cases. They are not part of the
// project, so a test skips if they are missing.
package cases

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Path returns the path of a sample file or folder. If it is missing, the test is skipped.
func Path(t testing.TB, name string) string {
	t.Helper()
	root, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			err = fs.ErrNotExist
		}
		root = filepath.Dir(root)
	}
	file := filepath.Join(filepath.Dir(root), "shared", "cases", filepath.FromSlash(name))
	if err == nil {
		_, err = os.Stat(file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the samples are not here: %s", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
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
