package bundle_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
)

// installed is a node that has an earlier bundle: its files by path, the blobs of images by digest.
type installed struct {
	archive *bundle.Archive
	lost    string // what its path begins with is gone
	changed bool   // another process changed all files
	closed  *bool
}

func (n installed) Open(e bundle.Entry) (io.ReadCloser, error) {
	if n.lost != "" && strings.HasPrefix(e.Path, n.lost) {
		return nil, fs.ErrNotExist
	}
	content, err := n.archive.OpenEntry(e.Path)
	if err != nil || !n.changed {
		return content, err
	}
	return io.NopCloser(bytes.NewReader(make([]byte, e.Size))), content.Close()
}

func (n installed) Close() error {
	if n.closed != nil {
		*n.closed = true
	}
	return nil
}

// TestPreflightIsLeftOut: an update is installed with the earlier bundle, and starts without it.
func TestPreflightIsLeftOut(t *testing.T) {
	files := []bundle.File{
		bundle.BytesFile("install.sh", 0o755, []byte("#!/bin/sh\n")), bundle.BytesFile(bundle.BinaryName, 0o755, bytes.Repeat([]byte("sealift"), 1000)),
		bundle.BytesFile(bundle.PreflightName, 0o755, bytes.Repeat([]byte("preflight"), 1000)),
		bundle.BytesFile(bundle.ProgramPath(bundle.PreflightName, "linux/arm64"), 0o755, bytes.Repeat([]byte("another"), 1000)),
	}
	written := func(since *bundle.Since, files ...bundle.File) *bundle.Archive {
		var buf bytes.Buffer
		b := bundle.Bundle{Members: render(t, files...), Packages: []*bundle.Archive{open(t, write(t, demo("one"), bundle.WriteOptions{}))}, Since: since}
		if _, err := bundle.WriteBundle(t.Context(), &buf, b); err != nil {
			t.Fatal(err)
		}
		return open(t, buf.Bytes())
	}
	old := written(nil, files...)
	since, err := old.Since()
	if err != nil {
		t.Fatal(err)
	}
	now := written(since, files...)
	if err := now.WithBase(old); err != nil {
		t.Fatal(err)
	}
	for n, f := range files {
		e, _ := now.Entry(f.Path)
		if left := e.Encoding == bundle.InBase; left != (n > 1) {
			t.Errorf("%s is left out: %v", f.Path, left)
		}
		if got := read(t, now, f.Path); int64(len(got)) != f.Size {
			t.Errorf("%s: %d bytes", f.Path, len(got))
		}
	}
	if e, _ := now.Program(bundle.PreflightName, "linux/amd64"); e.Size != files[2].Size {
		t.Errorf("the program is %+v", e)
	}
	changed := written(since, append(files[:2:2], bundle.BytesFile(bundle.PreflightName, 0o755, []byte("another")))...)
	if e, _ := changed.Entry(bundle.PreflightName); e.NeedsBase() {
		t.Error("a program that changed is left out")
	}
}

// TestClusterServesAsBaseOfItsUpgrade assembles a bundle without what a cluster has, as its packages say, and reads it on a node.
func TestClusterServesAsBaseOfItsUpgrade(t *testing.T) {
	_, _, old := bundled(t)
	runs := open(t, old)
	one := open(t, write(t, demo("one"), bundle.WriteOptions{}))
	b := bundle.Bundle{Packages: []*bundle.Archive{one}, Since: bundle.SinceInstalled(runs.Digest, []bundle.InstalledPackage{{Archive: one}})}
	var buf bytes.Buffer
	if _, err := bundle.WriteBundle(t.Context(), &buf, b); err != nil {
		t.Fatal(err)
	}
	if buf.Len() > len(old)/100 {
		t.Errorf("nothing changed, and the bundle has %d bytes of %d", buf.Len(), len(old))
	}
	a, closed := open(t, buf.Bytes()), false
	if err := a.WithInstalled(installed{archive: runs, lost: "addons/one/1.0.0/assets"}); !errors.Is(err, bundle.ErrNoBase) || !strings.Contains(err.Error(), "lacks 2 of them") {
		t.Errorf("a node that lost files: %v", err)
	}
	if err := a.WithInstalled(installed{archive: runs, closed: &closed}); err != nil {
		t.Fatal(err)
	}
	if err := a.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	for _, f := range demo("one").Files {
		if got := read(t, a, f.Path); int64(len(got)) != f.Size {
			t.Errorf("%s: %d bytes", f.Path, len(got))
		}
	}
	head := make([]byte, 2)
	if err := a.ReadAt("addons/one/1.0.0/images/copy", head, 0); err != nil || !bytes.Equal(head, layer[:2]) {
		t.Errorf("read at an offset: %v %x", err, head)
	}
	if err := a.Close(); err != nil || !closed {
		t.Errorf("the node is still open: %v", err)
	}

	damaged := open(t, buf.Bytes())
	if err := damaged.WithInstalled(installed{archive: runs, changed: true}); err != nil {
		t.Fatal(err)
	}
	var digest *bundle.DigestError
	if err := damaged.Verify(t.Context()); !errors.As(err, &digest) {
		t.Errorf("a node with changed files: %v", err)
	}
	if err := runs.WithInstalled(installed{archive: runs}); err == nil {
		t.Error("a bundle that is complete took a node")
	}

	// A node that has all of an update serves it to others as a whole.
	index, _ := a.Raw()
	served, err := bundle.NewUnpacked(index, nil, func(e bundle.Entry) (io.ReadCloser, error) { return runs.OpenEntry(e.Path) })
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, served, "addons/one/1.0.0/install.sh"); !strings.HasPrefix(string(got), "echo one") {
		t.Errorf("from a node: %.20q", got)
	}
}
