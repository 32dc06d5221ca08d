package delivery

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/verdict"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/internal/testing/fixture"
)

const (
	layer = "addons/app/1/images/blobs/sha256/layer"
	hook  = "addons/app/1/install.sh"
)

// packed writes a bundle with an image, a hook, and a document with secrets. It leaves out what an earlier bundle has.
func packed(t *testing.T, since *bundle.Since) (file string) {
	t.Helper()
	var one bytes.Buffer
	_, err := bundle.WritePackage(t.Context(), &one, bundle.Package{Name: "app", Version: "1", Platforms: []string{"linux/amd64"}, Files: []bundle.File{
		bundle.BytesFile(layer, 0o644, []byte(strings.Repeat("layer ", 1000))), bundle.BytesFile(hook, 0o644, []byte("app() { :; }\n")),
	}}, bundle.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	app, err := bundle.NewArchive(bytes.NewReader(one.Bytes()), int64(one.Len()))
	if err != nil {
		t.Fatal(err)
	}
	members, err := bundle.Render(t.Context(), []bundle.File{bundle.BytesFile("fleet/parcel.json", 0o644, []byte(`{"password": "hunter2"}`))}, bundle.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "cluster.tar.gz")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := bundle.WriteBundle(t.Context(), f, bundle.Bundle{Members: members, Packages: []*bundle.Archive{app}, Since: since}); err != nil {
		t.Fatal(err)
	}
	return file
}

// unpacked unpacks it into a folder, to which a link leads.
func unpacked(t *testing.T, file string) (link string) {
	t.Helper()
	a, err := bundle.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	folder := t.TempDir()
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	index, _ := a.Raw()
	link = filepath.Join(t.TempDir(), "current")
	if err := errors.Join(a.Extract(t.Context(), root, func(bundle.Entry) bool { return true }), os.WriteFile(filepath.Join(folder, bundle.IndexName), index, 0o600), os.Symlink(folder, link)); err != nil {
		t.Fatal(err)
	}
	return link
}

// served is a control plane with a shelf, and the certificate of a node's kubelet as the client.
func served(t *testing.T, shelf string) *share.Client {
	t.Helper()
	keys := fixture.CA(t)
	authority, err := identity.ReadAuthority(keys)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &share.Server{Root: t.TempDir(), Shelf: shelf, Log: slog.New(slog.DiscardHandler),
		Authorize: func(context.Context, string) error { return share.ErrToken },
		Node:      func(context.Context, string, time.Time) error { return nil },
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- share.Serve(ctx, share.Mixed(l, authority.Server("host-0", "127.0.0.1")), s.Handler()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	c, err := share.NewNodeClient(l.Addr().String(), filepath.Join(keys, "ca.crt"), share.KubeletCertificate(fixture.ClientCertificate(t, keys, "system:node:host-1", "system:nodes")))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// update writes a bundle without the image of an earlier one.
func update(t *testing.T, earlier string) (file string) {
	t.Helper()
	base, err := bundle.Open(earlier)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	since, err := base.Since()
	if err != nil {
		t.Fatal(err)
	}
	return packed(t, since)
}

// opened opens a bundle with the one that it adds to, if it does.
func opened(t *testing.T, archive, earlier string) *bundle.Archive {
	t.Helper()
	a, err := bundle.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	if a.Index.Base != "" {
		base, err := bundle.Open(earlier)
		if err == nil {
			err = a.WithBase(base)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// TestNodesGetImagesFromCache has bundles of all forms on a shelf. Nodes get their images, and nothing else.
func TestNodesGetImagesFromCache(t *testing.T) {
	t.Parallel()
	file := packed(t, nil)
	added := update(t, file)
	signed := verdict.Signed{Document: []byte("{}\n"), Signature: []byte("c2ln\n")}
	for form, archive := range map[string]string{"a file": file, "a folder": unpacked(t, file), "one that adds to another": added} {
		shelf := filepath.Join(t.TempDir(), "state", "shelf")
		killed := filepath.Join(shelf, strings.Repeat("0", 64))
		if err := errors.Join(os.MkdirAll(killed, 0o700), os.WriteFile(filepath.Join(killed, "half"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		a := opened(t, archive, file)
		if err := signed.Write(bundle.VerdictFile(archive)); err != nil {
			t.Fatal(err)
		}
		i, err := indexOf(a)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second run follows a kill
			if err := put(t.Context(), a, i, archive, shelf); err != nil {
				t.Fatalf("%s: %v", form, err)
			}
		}
		if _, err := os.Stat(killed); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: what a killed run left is there: %v", form, err)
		}
		c := served(t, shelf)
		got, err := c.Shelved(t.Context(), i.digest)
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if data, err := got.ReadFile(layer, 1<<20); err != nil || !strings.HasPrefix(string(data), "layer") {
			t.Errorf("%s: the image: %q, %v", form, data, err)
		}
		if carried, err := got.Verdict(); err != nil || !reflect.DeepEqual(carried, signed) {
			t.Errorf("%s: the verdict is %q, %v", form, carried, err)
		}
		for _, name := range []string{hook, "fleet/parcel.json"} {
			if data, err := got.ReadFile(name, 1<<20); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: a node gets %s: %q, %v", form, name, data, err)
			}
		}
		for _, digest := range []string{strings.Repeat("0", 64), "..%2f..", strings.ToUpper(i.digest)} {
			if _, err := c.Shelved(t.Context(), digest); err == nil {
				t.Errorf("%s: the shelf has bundle %s", form, digest)
			}
		}
		blob := filepath.Join(shelf, i.digest, layer)
		if err := os.WriteFile(blob, []byte(strings.Repeat("LAYER ", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
		var damaged *bundle.DigestError
		if _, err := got.ReadFile(layer, 1<<20); !errors.As(err, &damaged) {
			t.Errorf("%s: a changed image was taken: %v", form, err)
		}
		if err := empty(shelf); err != nil {
			t.Error(err)
		}
		if _, err := c.Shelved(t.Context(), i.digest); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it is still on the shelf: %v", form, err)
		}
	}
}

// TestOtherIndexIsRefused has the bundle of another index under the digest that a node was to load.
func TestOtherIndexIsRefused(t *testing.T) {
	t.Parallel()
	shelf, name := t.TempDir(), fmt.Sprintf("%x", sha256.Sum256([]byte("another")))
	if err := os.Symlink(unpacked(t, packed(t, nil)), filepath.Join(shelf, name)); err != nil {
		t.Fatal(err)
	}
	if _, err := served(t, shelf).Shelved(t.Context(), name); err == nil || !strings.Contains(err.Error(), "serves the bundle") {
		t.Error(err)
	}
}

func TestOnlyReadyNodesWithAgentAreAsked(t *testing.T) {
	t.Parallel()
	with, none := map[string]string{intent.AgentAnnotation: "{}"}, map[string]string{}
	for name, row := range map[string]struct {
		nodes       []cluster.Node
		annotations map[string]map[string]string
		want        Result
		err         string
	}{
		"all":                     {[]cluster.Node{{Name: "b", Ready: true}, {Name: "a", Ready: true}}, map[string]map[string]string{"a": with, "b": with}, Result{Nodes: []string{"a", "b"}}, ""},
		"one is off":              {[]cluster.Node{{Name: "a", Ready: true}, {Name: "b"}}, map[string]map[string]string{"a": with, "b": none}, Result{Nodes: []string{"a"}, Away: []string{"b"}}, ""},
		"one without an agent":    {[]cluster.Node{{Name: "a", Ready: true}, {Name: "b", Ready: true}}, map[string]map[string]string{"a": with}, Result{Nodes: []string{"a"}}, "no agent of Sealift runs on b"},
		"all are off":             {[]cluster.Node{{Name: "a"}}, map[string]map[string]string{"a": with}, Result{Nodes: []string{}, Away: []string{"a"}}, "no node of the cluster is Ready"},
		"a cluster without nodes": {nil, nil, Result{Nodes: []string{}}, "no node of the cluster is Ready"},
	} {
		got, err := divide(row.nodes, row.annotations)
		if diff := cmp.Diff(row.want, got); diff != "" || (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}
