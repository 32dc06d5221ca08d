package release_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/internal/testing/realregistry"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/store/release"
)

func open(t *testing.T, location string) store.Store {
	t.Helper()
	s, err := store.Opener{Retry: store.Retry{Attempts: 2, Wait: time.Millisecond}}.Open(location)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// candidate is a package whose bytes are its content.
func candidate(name, version, content string) release.Candidate {
	return release.Candidate{Name: name, Version: version, Digest: "index of " + content, Value: store.Bytes([]byte(content))}
}

func publish(t *testing.T, r release.Release, candidates ...release.Candidate) []release.Status {
	t.Helper()
	results, err := r.Publish(t.Context(), candidates)
	if err != nil {
		t.Fatal(err)
	}
	var fates []release.Status
	for _, result := range results {
		fates = append(fates, result.Status)
	}
	return fates
}

// listed returns the content of the index: the keys with the digests of the packages' indexes.
func listed(t *testing.T, r release.Release) map[string]string {
	t.Helper()
	index, err := r.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list := make(map[string]string)
	for _, p := range index.Packages {
		if p.SHA256 == "" || p.Size == 0 || p.Key != p.Name+"-"+p.Version+".tar.gz" {
			t.Errorf("incomplete: %+v", p)
		}
		list[p.Key] = p.Digest
	}
	return list
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (- want, + got):\n%s", what, diff)
	}
}

type outcomes = []release.Status

func TestPublishListsPackages(t *testing.T) {
	server := objects.Start(t)
	for name, location := range map[string]string{"folder": t.TempDir(), "bucket": server.URL("stable")} {
		t.Run(name, func(t *testing.T) {
			s := open(t, location)
			r := release.In(s, "")
			want(t, "nothing is listed at first", listed(t, r), map[string]string{})
			want(t, "what is lacking is uploaded", publish(t, r, candidate("a", "1", "a1"), candidate("b", "1", "b1")), outcomes{release.Uploaded, release.Uploaded})
			want(t, "what is there is not", publish(t, r, candidate("a", "1", "a1"), candidate("b", "1", "other"), candidate("b", "2", "b2")),
				outcomes{release.Present, release.Uploaded, release.Uploaded})
			want(t, "index", listed(t, r), map[string]string{"a-1.tar.gz": "index of a1", "b-1.tar.gz": "index of other", "b-2.tar.gz": "index of b2"})
		})
	}
}

func TestRegistryHoldsRelease(t *testing.T) {
	r := release.In(open(t, "oci://"+realregistry.Start(t)+"/packages"), "dist/v1")
	want(t, "first", publish(t, r, candidate("app", "1.0", "one"), candidate("app", "2.0+b", "two")), []release.Status{release.Uploaded, release.Uploaded})
	want(t, "again", publish(t, r, candidate("app", "1.0", "one"), candidate("app", "2.0+b", "other")), []release.Status{release.Present, release.Uploaded})
	want(t, "index", listed(t, r), map[string]string{"app-1.0.tar.gz": "index of one", "app-2.0+b.tar.gz": "index of other"})
}

func TestKurlLayoutIsWritten(t *testing.T) {
	dir := t.TempDir()
	folder, err := release.KURLFolder("staging", "v2026.11.21-0")
	if err != nil {
		t.Fatal(err)
	}
	publish(t, release.In(open(t, dir), folder), candidate("weave", "2.8.1", "x"))
	for _, name := range []string{"weave-2.8.1.tar.gz", "index.json"} {
		if _, err := os.Stat(filepath.Join(dir, "staging", "v2026.11.21-0", name)); err != nil {
			t.Error(err)
		}
	}
	for _, wrong := range [][2]string{{"prod", "v1"}, {"dist", ""}, {"dist", "a/b"}, {"dist", ".."}, {"dist", `a\b`}} {
		if _, err := release.KURLFolder(wrong[0], wrong[1]); err == nil {
			t.Errorf("took %q", wrong)
		}
	}
}

func TestConcurrentPublishesAreAllIndexed(t *testing.T) {
	server := objects.Start(t)
	line := server.Line(t)
	line.Plan(func(r *http.Request) objects.Fault {
		if r.Header.Get("If-Match")+r.Header.Get("If-None-Match") != "" && r.Method == http.MethodPut {
			return objects.Fault{Status: http.StatusNotImplemented}
		}
		return objects.Fault{}
	})
	for name, location := range map[string]string{
		"in a folder": t.TempDir(), "in a bucket": server.URL("a"), "in a bucket without conditional writes": line.URL("b"),
	} {
		t.Run(name, func(t *testing.T) {
			var group sync.WaitGroup
			wanted := make(map[string]string)
			for i := range 6 {
				c := candidate("add-on", strconv.Itoa(i), fmt.Sprint("content ", i))
				wanted["add-on-"+c.Version+".tar.gz"] = c.Digest
				group.Go(func() {
					if _, err := release.In(open(t, location), "").Publish(t.Context(), []release.Candidate{c}); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			want(t, "index", listed(t, release.In(open(t, location), "")), wanted)
		})
	}
}

func TestPackagesAreListedAfterTheirBytes(t *testing.T) {
	server := objects.Start(t)
	line := server.Line(t)
	line.Plan(func(r *http.Request) objects.Fault {
		if strings.HasSuffix(r.URL.Path, "/b-1.tar.gz") && r.Method == http.MethodPut {
			return objects.Fault{CutRequest: objects.After(0)}
		}
		return objects.Fault{}
	})
	r := release.In(open(t, line.URL("")), "")
	results, err := r.Publish(t.Context(), []release.Candidate{candidate("a", "1", "a1"), candidate("b", "1", "b1"), candidate("c", "1", "c1")})
	if err == nil || !strings.Contains(err.Error(), "publish b 1") || len(results) != 1 {
		t.Errorf("got %v, %v", results, err)
	}
	want(t, "only what is complete is listed", listed(t, r), map[string]string{"a-1.tar.gz": "index of a1"})
	line.Plan(nil)
	want(t, "the rest follows", publish(t, r, candidate("a", "1", "a1"), candidate("b", "1", "b1"), candidate("c", "1", "c1")),
		outcomes{release.Present, release.Uploaded, release.Uploaded})
}

func TestLeftoversOfKilledPublishAreUsed(t *testing.T) {
	server := objects.Start(t)
	for name, place := range map[string]struct{ location, dir string }{
		"in a bucket": {server.URL("a"), filepath.Join(server.Dir, "a")}, "in a folder": {},
	} {
		t.Run(name, func(t *testing.T) {
			if place.dir == "" {
				place.dir = t.TempDir()
				place.location = place.dir
			}
			r := release.In(open(t, place.location), "")
			remove := func(name string) {
				if err := os.Remove(filepath.Join(place.dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			publish(t, r, candidate("a", "1", "a1"))
			remove("index.json")
			want(t, "killed before the index", publish(t, r, candidate("b", "1", "b1")), outcomes{release.Uploaded})
			want(t, "another publish lists it", listed(t, r), map[string]string{"a-1.tar.gz": "index of a1", "b-1.tar.gz": "index of b1"})
			remove("index.json")
			remove(".sealift/a-1.tar.gz.json")
			want(t, "killed before the record", publish(t, r, candidate("a", "1", "a1")), outcomes{release.Present})
			want(t, "it is listed", listed(t, r), map[string]string{"a-1.tar.gz": "index of a1", "b-1.tar.gz": "index of b1"})
		})
	}
}

func TestCopiedStoreIsPublishedTo(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	publish(t, release.In(open(t, from), ""), candidate("a", "1", "a1"), candidate("b", "1", "b1"))
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, "b-1.tar.gz"), []byte("bX"), 0o644); err != nil { // damaged in transit
		t.Fatal(err)
	}
	r := release.In(open(t, to), "")
	want(t, "what is intact is there", publish(t, r, candidate("c", "1", "c1"), candidate("a", "1", "a1")), outcomes{release.Uploaded, release.Present})
	want(t, "what is damaged is not listed", listed(t, r), map[string]string{"a-1.tar.gz": "index of a1", "c-1.tar.gz": "index of c1"})
}

// overtaken is a store to which another writer puts other bytes just before the index is written.
type overtaken struct {
	store.Store
	once *sync.Once
}

func (o overtaken) Swap(ctx context.Context, key string, data []byte, old string) (version string, err error) {
	o.once.Do(func() { _, err = o.Put(ctx, "a-1.tar.gz", store.Bytes([]byte("of another"))) })
	if err != nil {
		return "", err
	}
	return o.Store.Swap(ctx, key, data, old)
}

func TestLoserOfPublishRaceIsReported(t *testing.T) {
	r := release.In(overtaken{open(t, t.TempDir()), new(sync.Once)}, "")
	if _, err := r.Publish(t.Context(), []release.Candidate{candidate("a", "1", "of one")}); !errors.Is(err, store.ErrChanged) {
		t.Errorf("got %v", err)
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"format": "sealift.dev/release/v1", "packages": [{"name": "a", "version": "1", "key": "a-1.tar.gz", "sha256": "x", "size": 2, "stored": "e"}]}`))
	f.Add([]byte(`{"format": "sealift.dev/release/v2"}`))
	f.Add([]byte("\x00"))
	dir := f.TempDir() // each process that fuzzes has one, and runs one index after the other
	s, err := store.Open(dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, "index.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		index, err := release.In(s, "").Index(t.Context())
		if err == nil && index.Format != release.Format {
			t.Errorf("took the format %q", index.Format)
		}
	})
}
