package registry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/file"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/realregistry"
	"github.com/sealift/sealift/registry"
)

// withFiles is a package with OS packages and assets.
func withFiles(t *testing.T, version string) *bundle.Archive {
	t.Helper()
	dir := bundle.AddOnDir("app", version)
	p := bundle.Package{Name: "app", Version: version, Platforms: []string{"linux/amd64"}, Targets: []string{"debian-12"}, Files: []bundle.File{
		bundle.BytesFile(dir+"/Manifest", 0o644, nil),
		bundle.BytesFile(dir+"/packages/debian-12/Packages", 0o644, []byte("Package: tool\n")),
		bundle.BytesFile(dir+"/packages/debian-12/pool/tool_1_amd64.deb", 0o644, bytes.Repeat([]byte("deb"), 100_000)),
		bundle.BytesFile(dir+"/assets/kubelet-amd64", 0o755, bytes.Repeat([]byte("elf"), 100_000)),
		bundle.BytesFile(dir+"/assets/copy", 0o755, bytes.Repeat([]byte("elf"), 100_000)),
	}}
	var out bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &out, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	a, err := bundle.NewArchive(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// pull writes the files of an artifact into a folder, as 'oras pull' does.
func pull(ctx context.Context, host, repository, tag, dir string) (ocispec.Descriptor, error) {
	repo, err := remote.NewRepository(host + "/mirror/" + repository)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	repo.PlainHTTP = true
	to, err := file.New(dir)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	d, err := oras.Copy(ctx, repo, tag, to, tag, oras.DefaultCopyOptions)
	return d, errors.Join(err, to.Close())
}

// TestORASPullsPushedFiles uses a version with a plus.
func TestORASPullsPushedFiles(t *testing.T) {
	host := realregistry.Start(t)
	a := withFiles(t, "1.2.3+build")
	done, err := push(t.Context(), a, options(t, host))
	if err != nil || len(done.Images) != 2 || done.Images[0].Kind != registry.KindPackages || done.Images[1].Kind != registry.KindFiles {
		t.Fatalf("%+v, %v", done, err)
	}
	for repository, files := range map[string][]string{
		"packages/app/debian-12": {"Packages", "pool/tool_1_amd64.deb"}, "files/app": {"kubelet-amd64", "copy"},
	} {
		dir := t.TempDir()
		if _, err := pull(t.Context(), host, repository, "1.2.3_build", dir); err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			below := "assets/"
			if repository != "files/app" {
				below = "packages/debian-12/"
			}
			want, err := a.ReadFile("addons/app/1.2.3+build/"+below+name, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s of %s: %d bytes, %v", name, repository, len(got), err)
			}
		}
	}
	if again, err := push(t.Context(), a, options(t, host)); err != nil || again.Send != 0 || again.Images[1].State != registry.Present {
		t.Errorf("again: %+v, %v", again, err)
	}
	if files, err := registry.Configuration(done, options(t, host).Target, ""); err != nil || files["certs.d/packages/hosts.toml"] != "" || files["certs.d/files/hosts.toml"] != "" {
		t.Errorf("files count as a registry of images: %v, %v", files, err)
	}
}

// TestInterruptedPushOfFilesIsContinued uses a registry that dies after the first file.
func TestInterruptedPushOfFilesIsContinued(t *testing.T) {
	s, a := newSite(t), withFiles(t, "1.0")
	var puts atomic.Int64
	s.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || puts.Add(1) <= 2 {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	o := options(t, s.Host)
	o.Parallel = 1
	partly, err := push(t.Context(), a, o)
	if err == nil || partly.Send == 0 || partly.Send >= partly.Total {
		t.Fatalf("sent %d of %d, %v", partly.Send, partly.Total, err)
	}
	s.SetFault(nil)
	rest, err := push(t.Context(), a, options(t, s.Host))
	if err != nil || rest.Send == 0 || rest.Send > rest.Total-partly.Send+10 { // the empty configuration is in two repositories
		t.Errorf("sent %d of %d after %d, %v", rest.Send, rest.Total, partly.Send, err)
	}
}

func TestOnlySomeKindsArePushed(t *testing.T) {
	s, a := newSite(t), withFiles(t, "1.0")
	for kind, want := range map[string]string{registry.KindPackages: "packages/app/debian-12:1.0", registry.KindFiles: "files/app:1.0", registry.KindImage: "", registry.KindChart: ""} {
		o := options(t, s.Host)
		o.Only = []string{kind}
		p, err := registry.Prepare(t.Context(), a, o)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for _, i := range p.Images {
			got += i.Ref
		}
		if got != want {
			t.Errorf("%s: %q", kind, got)
		}
	}
}
