package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/internal/testing/objects"
)

// TestUnreadArchiveIsNotCalledDamaged interrupts verify.
func TestUnreadArchiveIsNotCalledDamaged(t *testing.T) {
	packed := writePackage(t, t.TempDir(), "large", 1<<20)
	ctx, interrupt := context.WithCancelCause(t.Context())
	interrupt(errors.New("interrupt signal received"))
	var out, said bytes.Buffer
	if code := run(ctx, []string{"verify", packed}, strings.NewReader(""), &out, &said); code != app.ExitFailed || !strings.Contains(said.String(), "not verified to its end: interrupt signal received") {
		t.Errorf("interrupted: exit %d, %s", code, &said)
	}
}

func TestInspectReadsArchiveByURL(t *testing.T) {
	server := objects.Start(t)
	line := server.Line(t)
	dir := t.TempDir()
	packed := writePackage(t, dir, "large", 48<<20)
	if code, _, said := command(t, "publish", packed, "--store", server.URL("stable"), "--cache", filepath.Join(dir, "cache")); code != 0 {
		t.Fatal(said)
	}
	web := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(packed))))
	t.Cleanup(web.Close)
	for name, location := range map[string]string{
		"a bucket": strings.Replace(line.URL("stable"), "?", "/large-1.0.tar.gz?", 1), "a web server": web.URL + "/large-1.0.tar.gz",
		"a folder": "file://" + packed, "a path": packed,
	} {
		t.Run(name, func(t *testing.T) {
			before := line.Received()
			code, out, said := command(t, "inspect", location, "-o", "json")
			var got archive.Summary
			if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
				t.Fatalf("exit %d, %v: %s", code, err, said)
			}
			if got.Size < 48<<20 || len(got.Packages) != 1 || got.Packages[0].Name != "large" {
				t.Errorf("got %+v", got)
			}
			if read := line.Received() - before; read > 1<<20 {
				t.Errorf("%d bytes were read for an index", read)
			}
			if code, out, said := command(t, "verify", location); code != 0 || !strings.Contains(out, "are as the index says") {
				t.Errorf("verify: exit %d, %s%s", code, out, said)
			}
		})
	}
	t.Run("damage in it is named", func(t *testing.T) {
		data, err := os.ReadFile(packed)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(packed, data, 0o644); err != nil {
			t.Fatal(err)
		}
		code, _, said := command(t, "verify", web.URL+"/large-1.0.tar.gz")
		if code != app.ExitFailed || !strings.Contains(said, "addons/large/1.0/") {
			t.Errorf("exit %d: %s", code, said)
		}
	})
}

// TestInspectTellsArchitecturesApart uses an OS package for two of them.
func TestInspectTellsArchitecturesApart(t *testing.T) {
	p := bundle.Package{Name: "app", Version: "1.0", Platforms: []string{"linux/amd64", "linux/arm64"}, Targets: []string{"debian-12"},
		Files: []bundle.File{bundle.BytesFile("addons/app/1.0/Manifest", 0o644, nil)}}
	for _, arch := range []string{"amd64", "arm64"} {
		f := bundle.BytesFile("addons/app/1.0/packages/debian-12/tool_"+arch+".deb", 0o644, []byte(arch))
		p.Files = append(p.Files, f)
		p.Contents.HostPackages = append(p.Contents.HostPackages, bundle.HostPackage{Target: "debian-12", HostPackageID: bundle.HostPackageID{Name: "tool", Version: "1.2", Arch: arch},
			Path: f.Path, Blob: bundle.Blob{SHA256: f.SHA256, Size: f.Size}})
	}
	var packed bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &packed, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "app-1.0.tar.gz")
	if err := os.WriteFile(name, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, said := command(t, "inspect", name); code != app.ExitDone || !strings.Contains(out, "tool 1.2 amd64") || !strings.Contains(out, "tool 1.2 arm64") {
		t.Errorf("exit %d: %s%s", code, out, said)
	}
}

func TestInspectRefusesURLWithoutArchive(t *testing.T) {
	web := httptest.NewServer(http.FileServer(http.Dir(t.TempDir())))
	t.Cleanup(web.Close)
	for location, row := range map[string]struct {
		code int
		want string
	}{
		web.URL + "/":               {app.ExitUsage, "names no file"},
		web.URL + "/absent.tar.gz":  {app.ExitFailed, "does not exist"},
		"ftp://host/a.tar.gz":       {app.ExitFailed, `scheme "ftp" is not known`},
		"http://[::1/a.tar.gz":      {app.ExitUsage, "is not a URL"},
		"https://user:p@host/a/b/#": {app.ExitUsage, "user:xxxxx@host"},
	} {
		if code, _, said := command(t, "inspect", location); code != row.code || !strings.Contains(said, row.want) {
			t.Errorf("%s: exit %d, %s, want %q", location, code, said, row.want)
		}
	}
}
