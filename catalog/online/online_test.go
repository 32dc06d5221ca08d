package online_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/online"
	"github.com/sealift/sealift/store"
)

func TestBundleIsFoundBesideItsInstaller(t *testing.T) {
	for name, row := range map[string]struct{ from, want string }{
		"an Installer":                  {"https://host/abc1234", "https://host/bundle/abc1234.tar.gz"},
		"its script":                    {"https://host/abc1234/install.sh", "https://host/bundle/abc1234.tar.gz"},
		"of a release":                  {"http://host:8080/version/v1.2/demo", "http://host:8080/bundle/version/v1.2/demo.tar.gz"},
		"of a server below a path":      {"https://host/sealift/abc1234", "https://host/sealift/bundle/abc1234.tar.gz"},
		"of a release below a path":     {"https://host/x/version/v1/demo", "https://host/x/bundle/version/v1/demo.tar.gz"},
		"an archive on any web server":  {"https://host/files/cluster.tar.gz", "https://host/files/cluster.tar.gz"},
		"an Installer, and a slash":     {"https://host/abc1234/", "https://host/bundle/abc1234.tar.gz"},
		"a path that leaves the server": {"https://host/../../abc1234", "https://host/bundle/abc1234.tar.gz"},
		"nothing":                       {"https://host/", ""},
		"another scheme":                {"ftp://host/abc1234", ""},
		"a query":                       {"https://host/abc1234?x=y", ""},
		"no URL":                        {"abc1234", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := online.BundleURL(row.from)
			if row.want == "" && err == nil || row.want != "" && (err != nil || got.String() != row.want) {
				t.Errorf("got %v, %v; want %s", got, err, row.want)
			}
		})
	}
}

func TestOnlyReadRangesAreFetched(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bundle"), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "bundle", "abc1234.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	large := append([]byte{0x1f, 0x8b}, make([]byte, 30<<20)...)
	p := bundle.Package{Name: "app", Version: "1", Files: []bundle.File{
		bundle.BytesFile("addons/app/1/a-layer", 0o644, large), bundle.BytesFile("addons/app/1/install.sh", 0o644, []byte("app() { :; }\n")),
	}}
	if _, err := bundle.WritePackage(t.Context(), f, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.FileServer(http.Dir(dir)).ServeHTTP(&counter{w, &sent}, r)
	}))
	defer server.Close()
	archive, err := online.Open(t.Context(), server.URL+"/abc1234", store.Opener{})
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if got, err := archive.ReadFile("addons/app/1/install.sh", 1000); err != nil || string(got) != "app() { :; }\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if sent.Load() > 10<<20 {
		t.Errorf("%d bytes were sent for one small file", sent.Load())
	}
	if _, err := online.Open(t.Context(), server.URL+"/missing", store.Opener{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/bundle/missing.tar.gz") {
		t.Errorf("a bundle that is not there: got %v", err)
	}
	server.Close()
	if _, err := online.Open(t.Context(), server.URL+"/abc1234", store.Opener{Retry: store.Retry{Attempts: 1}}); err == nil || !strings.Contains(err.Error(), "connection refused (tried 1 times); check that the server runs") {
		t.Errorf("a server that is gone: got %v", err)
	}
}

// counter counts the requests to a server and the bytes that it sends.
type counter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}
