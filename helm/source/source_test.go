package source_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/helm/source"
	"github.com/sealift/sealift/internal/testing/fixture"
)

const (
	user, password = "captain", "opensesame"
	chartType      = types.MediaType("application/vnd.cncf.helm.chart.content.v1.tar+gzip")
)

func archive(t testing.TB, version string) []byte {
	return fixture.ChartArchive(t, "web", map[string]string{"Chart.yaml": "apiVersion: v2\nname: web\nversion: " + version + "\n"})
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// serve serves over TLS, with a certificate of a private authority, to those who have the password.
func serve(t *testing.T, handler http.Handler) (host string, access source.Access) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it
	server.StartTLS()
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "https://")
	return host, source.Access{
		CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		Credentials: fmt.Appendf(nil, `{"auths": {"https://%s/v1/": {"auth": %q}, "elsewhere.example.org": {"username": "x"}}}`,
			host, base64.StdEncoding.EncodeToString([]byte(user+":"+password))),
	}
}

// repository serves web 1.0.0, 1.2.0 and 2.0.0-rc.1. One of them has a wrong digest in the index.
func repository(t *testing.T) (url string, access source.Access) {
	files := http.NewServeMux()
	index := "apiVersion: v1\nentries:\n  web:\n"
	for _, version := range []string{"1.0.0", "1.2.0", "2.0.0-rc.1"} {
		content := archive(t, version)
		files.HandleFunc("/charts/files/web-"+version+".tgz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })
		sum := digest(content)[7:]
		if version == "2.0.0-rc.1" {
			sum = strings.Repeat("0", 64)
		}
		index += fmt.Sprintf("  - {version: %s, urls: [files/web-%s.tgz], digest: %s}\n", version, version, sum)
	}
	index += "  - {version: 0.1.0, urls: [https://elsewhere.invalid/web-0.1.0.tgz]}\n  - {version: 0.2.0}\n  - {version: 0.3.0, urls: [/plain]}\n"
	files.HandleFunc("/charts/index.yaml", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, index) })
	files.HandleFunc("/plain", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.Host+"/charts/files/web-1.0.0.tgz", http.StatusFound)
	})
	host, access := serve(t, files)
	return "https://" + host + "/charts", access
}

func TestRepositoryWithPrivateCAAndPasswordIsRead(t *testing.T) {
	t.Parallel()
	url, access := repository(t)
	for version, want := range map[string]string{
		"1.0.0": "1.0.0", "": "1.2.0", "~1.0": "1.0.0", ">=2.0.0-0": "", "2.0.0-rc.1": "", "3": "", "0.1.0": "", "0.2.0": "", "0.3.0": "",
		"1.0.0@" + digest(archive(t, "1.0.0")): "1.0.0", "1.0.0@" + digest(nil): "", "1.0.0@sha256:12": "", "latest?": "",
	} {
		got, err := source.Fetch(t.Context(), source.Chart{Repository: url, Name: "web", Version: version}, access)
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "chart web") {
				t.Errorf("version %q: %v", version, err)
			}
			continue
		}
		if err != nil || got.Version != want || !bytes.Equal(got.Content, archive(t, want)) || got.Digest != digest(got.Content) {
			t.Errorf("version %q: %s, %v", version, got.Version, err)
		}
	}
	_, err := source.Fetch(t.Context(), source.Chart{Repository: url, Name: "web", Version: "2.0.0-rc.1"}, access)
	if !errors.Is(err, source.ErrDigest) {
		t.Errorf("an archive that differs from the index: %v", err)
	}
}

// registryWith serves web 1.0.0 and 1.1.0+b as a registry, and an image that is not a chart.
func registryWith(t *testing.T) (host string, access source.Access, manifest string) {
	host, access = serve(t, registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig.InsecureSkipVerify = true
	for version, kind := range map[string]types.MediaType{"1.0.0": chartType, "1.1.0_b": chartType, "0.1.0": types.OCILayer} {
		var image v1.Image
		image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{Layer: static.NewLayer(archive(t, strings.ReplaceAll(version, "_", "+")), kind)})
		if err != nil {
			t.Fatal(err)
		}
		tag, err := name.NewTag(host + "/charts/web:" + version)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(tag, image, remote.WithTransport(transport), remote.WithAuth(&authn.Basic{Username: user, Password: password})); err != nil {
			t.Fatal(err)
		}
		if sum, err := image.Digest(); err == nil && version == "1.0.0" {
			manifest = sum.String()
		}
	}
	return host, access, manifest
}

func TestRegistryWithPrivateCAAndPasswordIsRead(t *testing.T) {
	t.Parallel()
	host, access, manifest := registryWith(t)
	want := source.Chart{Repository: "oci://" + host + "/charts", Name: "web"}
	for version, expected := range map[string]string{
		"1.0.0": "1.0.0", "": "1.1.0+b", "1.1.0+b": "1.1.0+b", "<1.1": "1.0.0", "1.0.0@" + manifest: "1.0.0",
		"9.9.9": "", "0.1.0": "", "1.0.0@" + digest(nil): "",
	} {
		want.Version = version
		got, err := source.Fetch(t.Context(), want, access)
		if expected == "" {
			if err == nil {
				t.Errorf("version %q is fetched", version)
			}
			continue
		}
		if err != nil || got.Version != expected || !bytes.Equal(got.Content, archive(t, expected)) {
			t.Errorf("version %q: %s, %v", version, got.Version, err)
		}
	}
	want.Version = "1.0.0"
	for what, change := range map[string]func(*source.Access){
		"another authority":         func(a *source.Access) { a.CA = nil },
		"no password":               func(a *source.Access) { a.Credentials = nil },
		"damaged credentials":       func(a *source.Access) { a.Credentials = []byte("{") },
		"an authority that is none": func(a *source.Access) { a.CA = []byte("x") },
	} {
		without := access
		change(&without)
		if _, err := source.Fetch(t.Context(), want, without); err == nil || strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v", what, err)
		}
	}
	access.CA, access.Insecure = nil, true
	if _, err := source.Fetch(t.Context(), want, access); err != nil {
		t.Errorf("without checking the certificate: %v", err)
	}
}

func TestPlainHTTPNeedsPermission(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(plain.Close)
	host := strings.TrimPrefix(plain.URL, "http://")
	for _, repository := range []string{plain.URL, "oci://" + host, "ftp://" + host, "file:///"} {
		_, err := source.Fetch(t.Context(), source.Chart{Repository: repository, Name: "web", Version: "1.0.0"}, source.Access{})
		if err == nil || !strings.Contains(err.Error(), "not allowed here") && !strings.Contains(err.Error(), "HTTP response to HTTPS") {
			t.Errorf("%s: %v", repository, err)
		}
	}
	_, err := source.Fetch(t.Context(), source.Chart{Repository: "oci://" + host, Name: "web", Version: "1.0.0"}, source.Access{Schemes: []string{"http"}})
	if err == nil || !strings.Contains(err.Error(), "NAME_UNKNOWN") {
		t.Errorf("where http is allowed, a registry without the chart says %v", err)
	}
}

func TestFolderOfArchivesIsARepository(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, version := range []string{"1.0.0", "1.10.0", "1.9.0"} {
		if err := os.WriteFile(filepath.Join(dir, "web-"+version+".tgz"), archive(t, version), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "web-3.0.0.tgz")); err != nil {
		t.Fatal(err)
	}
	access := source.Access{Schemes: []string{"file"}}
	for version, want := range map[string]string{"": "", "<2": "1.10.0", "1.0.0": "1.0.0", "1.0.0@" + digest(archive(t, "1.0.0")): "1.0.0", "1.0.0@" + digest(nil): ""} {
		got, err := source.Fetch(t.Context(), source.Chart{Repository: "file://" + dir, Name: "web", Version: version}, access)
		if (err == nil) != (want != "") || got.Version != want {
			t.Errorf("version %q: %s, %v", version, got.Version, err)
		}
	}
	for name, want := range map[string]string{"we": "no file", "web-1.10": "no file"} {
		_, err := source.Fetch(t.Context(), source.Chart{Repository: "file://" + dir, Name: name}, access)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("chart %q: %v", name, err)
		}
	}
}

func TestPackageIsARepositoryOfCharts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "web-1.tar.gz")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	p := bundle.Package{Name: "web", Version: "1", Files: []bundle.File{
		bundle.BytesFile("addons/web/1/charts/web-1.0.0.tgz", 0o644, archive(t, "1.0.0")),
		bundle.BytesFile("addons/web/1/assets/web-2.0.0.tgz", 0o644, archive(t, "2.0.0")),
	}}
	if _, err := bundle.WritePackage(t.Context(), out, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := source.Fetch(t.Context(), source.Chart{Repository: "file://" + file, Name: "web"}, source.Access{Schemes: []string{"file"}})
	if err != nil || got.Version != "1.0.0" || !bytes.Equal(got.Content, archive(t, "1.0.0")) {
		t.Errorf("%s, %v", got.Version, err)
	}
}

func FuzzFetch(f *testing.F) {
	for _, seed := range []string{"https://a/b", "oci://a/b", "file:///none", "OCI://x", "oci://a b", "oci://", "://"} {
		f.Add(seed, "web", "1.0.0", []byte(`{"auths": {"a": {"auth": "eA=="}}}`))
	}
	ended, cancel := context.WithCancel(f.Context())
	cancel()
	f.Fuzz(func(t *testing.T, repository, name, version string, credentials []byte) {
		_, err := source.Fetch(ended, source.Chart{Repository: repository, Name: name, Version: version}, source.Access{Credentials: credentials})
		if err == nil {
			t.Error("fetched with a context that has ended")
		}
	})
}
