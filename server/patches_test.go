package server_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/bundle/lean"
	"github.com/sealift/sealift/server"
)

// program is a file that changes a little between versions.
func program(version string) string {
	var out strings.Builder
	for n := range 5000 {
		fmt.Fprintf(&out, "%x %s\n", sha256.Sum256(fmt.Append(nil, n)), version)
	}
	return out.String()
}

// TestPatchesAreServed asks for a later bundle as patches of an earlier one, and installs both together.
func TestPatchesAreServed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := filled(t)
	for _, version := range []string{"1.0", "1.1"} {
		put(t, s, "tool-"+version+".tar.gz", pack(t, "tool", version, map[string]string{"Manifest": "", "install.sh": "", "assets/program": program(version)}))
	}
	spool := t.TempDir()
	front := serve(t, s, func(o *server.Options) { o.Patches = delta.NewSpool(spool) })
	url := func(version string) string {
		return "/bundle/" + post(t, front.URL, installer("  tool: {version: '"+version+"'}\n")) + ".tar.gz"
	}
	get := func(url string) (*bundle.Archive, int) {
		t.Helper()
		got := ask(t, "GET", url, "")
		a, err := bundle.NewArchive(bytes.NewReader(got.body), int64(len(got.body)))
		if err != nil {
			t.Fatalf("%s: %s: %s", url, got.Status, got.body)
		}
		if got.Header.Get("Sealift-Index") != a.Digest {
			t.Errorf("%s: another index than the header says", url)
		}
		return a, len(got.body)
	}
	old, _ := get(front.URL + url("1.0"))
	newer := url("1.1")
	since := "?since=" + old.Digest
	_, plain := get(front.URL + newer + since)
	var first string
	for _, base := range []string{front.URL, front.URL, serve(t, s, func(o *server.Options) { o.Patches = delta.NewSpool(spool) }).URL} {
		a, size := get(base + newer + since + "&patch")
		if a.Index.Format != bundle.FormatPatch || size > plain-100_000 {
			t.Errorf("%s, %d bytes, and without patches %d", a.Index.Format, size, plain)
		}
		if first == "" {
			first = a.Digest
		}
		if a.Digest != first {
			t.Error("the same request has another bundle")
		}
		if err := a.WithBase(old); err != nil {
			t.Fatal(err)
		}
		if err := a.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		if got, err := a.ReadFile("addons/tool/1.1/assets/program", 1<<20); err != nil || string(got) != program("1.1") {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	if kept, err := filepath.Glob(filepath.Join(spool, "*.patch-2")); err != nil || len(kept) != 1 {
		t.Errorf("kept %q, %v", kept, err)
	}

	without := serve(t, s, nil).URL
	for url, want := range map[string]struct {
		status int
		text   string
	}{
		front.URL + newer + "?patch":                                  {http.StatusBadRequest, "patch needs since"},
		front.URL + newer + since + "&patch=maybe":                    {http.StatusBadRequest, "patch must be true or false"},
		front.URL + newer + "?patch&since=" + strings.Repeat("0", 64): {http.StatusNotFound, "download the whole bundle"},
		without + newer + since + "&patch":                            {http.StatusNotFound, "started without --patch"},
	} {
		if got := ask(t, "GET", url, ""); got.StatusCode != want.status || !bytes.Contains(got.body, []byte(want.text)) {
			t.Errorf("%s: %s: %s", url, got.Status, got.body)
		}
	}
	if status, after := server.Answer(delta.ErrBusy); status != http.StatusServiceUnavailable || after != "5" {
		t.Errorf("while another patch is made: status %d, Retry-After %q", status, after)
	}
}

// TestSimilarFilesAreServedOnce asks for a lean bundle with patches.
func TestSimilarFilesAreServedOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	large := func(name string) string {
		var out strings.Builder
		for n := range 40_000 {
			fmt.Fprintf(&out, "%x\n", sha256.Sum256(fmt.Append(nil, n)))
		}
		return out.String() + name
	}
	s := filled(t)
	put(t, s, "tools-1.0.tar.gz", pack(t, "tools", "1.0", map[string]string{"Manifest": "", "install.sh": "", "assets/first": large("first"), "assets/second": large("second")}))
	spool := t.TempDir()
	front := serve(t, s, func(o *server.Options) { o.Lean, o.Patches = lean.NewSpool(spool), delta.NewSpool(spool) })
	url := front.URL + "/bundle/" + post(t, front.URL, installer("  tools: {version: '1.0'}\n")) + ".tar.gz?lean"
	whole := len(ask(t, "GET", url, "").body)
	var digests []string
	for range 2 {
		got := ask(t, "GET", url+"&patch", "")
		a, err := bundle.NewArchive(bytes.NewReader(got.body), int64(len(got.body)))
		if err != nil {
			t.Fatalf("%s: %s", got.Status, got.body)
		}
		if a.Index.Format != bundle.FormatWithin || len(got.body) > whole-1_000_000 {
			t.Errorf("%s, %d bytes, and without patches %d", a.Index.Format, len(got.body), whole)
		}
		if err := a.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"first", "second"} {
			if got, err := a.ReadFile("addons/tools/1.0/assets/"+name, 4<<20); err != nil || string(got) != large(name) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		}
		digests = append(digests, a.Digest)
	}
	if digests[0] != digests[1] {
		t.Error("the same request has another bundle")
	}
}

// TestBundleWithoutEarlierPackagesHasNoPatches uses a store from which the earlier version was removed.
func TestBundleWithoutEarlierPackagesHasNoPatches(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for _, version := range []string{"1.0", "1.1"} {
		put(t, s, "tool-"+version+".tar.gz", pack(t, "tool", version, map[string]string{"Manifest": "", "install.sh": "", "assets/program": program(version)}))
	}
	front := serve(t, s, func(o *server.Options) { o.Patches = delta.NewSpool(t.TempDir()) })
	old := ask(t, "GET", front.URL+"/bundle/"+post(t, front.URL, installer("  tool: {version: '1.0'}\n"))+".tar.gz", "").Header.Get("Sealift-Index")
	put(t, s, "tool-1.0.tar.gz", pack(t, "tool", "1.0", map[string]string{"Manifest": "", "install.sh": "", "assets/program": "another build"}))
	got := ask(t, "GET", front.URL+"/bundle/"+post(t, front.URL, installer("  tool: {version: '1.1'}\n"))+".tar.gz?patch&since="+old, "")
	a, err := bundle.NewArchive(bytes.NewReader(got.body), int64(len(got.body)))
	if err != nil || a.Index.Format != bundle.Format || a.Index.Base != old {
		t.Errorf("%s: %v", got.Status, err)
	}
}
