package content_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/fleet/content"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/store/release"
)

// shop is a store in a folder.
type shop struct {
	*testing.T
	packages.Source
	folder string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	folder := t.TempDir()
	s, err := store.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	return &shop{t, packages.Source{Store: s}, folder}
}

func (s *shop) put(name, version string, key *signature.Key, images ...string) {
	s.Helper()
	s.putWith(name, version, zero, key, images...)
}

// zero is the digest of images.
var zero = "sha256:" + strings.Repeat("0", 64)

func (s *shop) putWith(name, version, digest string, key *signature.Key, images ...string) {
	s.Helper()
	p := bundle.Package{Name: name, Version: version, Platforms: []string{"linux/amd64"}}
	for _, image := range images {
		p.Contents.Images = append(p.Contents.Images, bundle.Image{ID: "image", Ref: image, Digest: digest})
	}
	p.Files = []bundle.File{bundle.BytesFile(bundle.AddOnDir(name, version)+"/install.sh", 0o644, nil)}
	f, err := os.Create(filepath.Join(s.folder, name+"-"+version+".tar.gz"))
	if err != nil {
		s.Fatal(err)
	}
	_, err = bundle.WritePackage(s.Context(), f, p, bundle.WriteOptions{Key: key})
	if err := errors.Join(err, f.Close()); err != nil {
		s.Fatal(err)
	}
}

func (s *shop) list() []release.Package {
	s.Helper()
	list, err := s.List(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return list.Packages
}

func (s *shop) find(images ...string) (found content.Found, names []string) {
	s.Helper()
	found, err := content.Find(s.Context(), &s.Source, s.list(), images)
	if err := errors.Join(err, found.Close()); err != nil {
		s.Fatal(err)
	}
	for _, p := range found.Packages {
		names = append(names, p.Name+" "+p.Version)
	}
	return found, names
}

// TestDamagedPackageDoesNotStopOthers uses an unreadable package. A work that needs nothing of it gets everything, and one that may
// need it gets its name.
func TestDamagedPackageDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.put("first", "1.0", nil, "example.com/first:1")
	s.put("second", "1.0", nil, "example.com/second:1")
	if err := os.WriteFile(filepath.Join(s.folder, "third-1.0.tar.gz"), []byte("not an archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	found, names := s.find("example.com/first:1", "example.com/second:1")
	if slices.Sort(names); !slices.Equal(names, []string{"first 1.0", "second 1.0"}) || found.Err() != nil {
		t.Errorf("found %v, %v", names, found.Err())
	}
	if len(found.Unusable) != 1 || !strings.Contains(found.Unusable[0].Error(), "third-1.0.tar.gz") {
		t.Errorf("not usable: %v", found.Unusable)
	}
	found, names = s.find("example.com/first:1", "example.com/third:1")
	if err := found.Err(); err == nil || !strings.Contains(err.Error(), "third-1.0.tar.gz") || !strings.Contains(err.Error(), "contains example.com/third:1;") {
		t.Errorf("an image that may be in a damaged package: %v", err)
	}
	if !slices.Equal(names, []string{"first 1.0"}) {
		t.Errorf("found %v", names)
	}
	if err := os.Remove(filepath.Join(s.folder, "third-1.0.tar.gz")); err != nil {
		t.Fatal(err)
	}
	if found, _ := s.find("example.com/third:1"); found.Err() != nil || !slices.Equal(found.Missing, []string{"example.com/third:1"}) {
		t.Errorf("an image that no package carries: %v, %v", found.Missing, found.Err())
	}
}

// TestUnsignedPackageDoesNotStopOthers uses a newer unsigned package with the image.
func TestUnsignedPackageDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	key, public := fixture.SigningKey(t)
	s.Signers = []signature.PublicKey{public}
	s.put("hello", "1.0", key, "example.com/hello:1")
	s.put("hello", "2.0", nil, "example.com/hello:1", "example.com/hello:2")
	s.put("hello", "3.0", nil, "example.com/hello:3") // regardless of its content, it is not wanted
	found, names := s.find("example.com/hello:1")
	if !slices.Equal(names, []string{"hello 1.0"}) || found.Err() != nil || len(found.Unusable) != 1 {
		t.Errorf("found %v, %v, not usable: %v", names, found.Err(), found.Unusable)
	}
	found, _ = s.find("example.com/hello:2")
	if err := found.Err(); err == nil || !strings.Contains(err.Error(), "hello-2.0.tar.gz") {
		t.Errorf("an image that is only in a package without a signature: %v", err)
	}
}

// TestUnreachableStoreIsNotADamagedPackage uses a server that ends after its packages were listed.
func TestUnreachableStoreIsNotADamagedPackage(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.put("first", "1.0", nil, "example.com/first:1")
	list := s.list()
	server := httptest.NewServer(http.FileServer(http.Dir(s.folder)))
	once := store.Retry{Attempts: 1}
	remote, err := store.Opener{Retry: once, Reads: once}.Open(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	s.Store = remote
	found, err := content.Find(t.Context(), &s.Source, list, []string{"example.com/first:1"})
	if err := errors.Join(err, found.Close()); err != nil || len(found.Packages) != 1 {
		t.Fatalf("while it is there: %v, %v", found, err)
	}
	server.Close()
	if found, err := content.Find(t.Context(), &s.Source, list, []string{"example.com/first:1"}); err == nil || len(found.Unusable) > 0 {
		t.Errorf("when it is away: %v, %v", found, err)
	}
}

// TestImageSpellingsMatch uses an image of Docker Hub, one of another registry and one with a digest.
func TestImageSpellingsMatch(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.put("all", "1.0", nil, "docker.io/library/busybox:1.35.0", "docker.io/grafana/loki:latest", "example.com:5000/a@"+zero)
	images := []string{
		"busybox:1.35.0", "library/busybox:1.35.0", "docker.io/library/busybox:1.35.0", "busybox@" + zero, "busybox:1.35.0@" + zero,
		"grafana/loki", "docker.io/grafana/loki:latest", "grafana/loki:latest@" + zero, "example.com:5000/a@" + zero,
	}
	found, _ := s.find(images...)
	if len(found.Missing) > 0 {
		t.Errorf("missing: %s", found.Missing)
	}
	for _, image := range images {
		if found.Digests[image] != zero {
			t.Errorf("%s has the digest %q", image, found.Digests[image])
		}
	}
	if found, _ := s.find("busybox", "busybox:1.36", "example.com:5000/a:1", "busybox@sha256:"+strings.Repeat("1", 64)); len(found.Digests) > 0 {
		t.Errorf("found: %s", found.Digests)
	}
	s.putWith("bad", "1.0", "sha256:x; rm", nil, "example.com/bad:1")
	if found, _ := s.find("example.com/bad:1"); len(found.Packages) != 1 || found.Digests["example.com/bad:1"] != "" {
		t.Errorf("found: %q", found.Digests)
	}
}
