package mirror_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/mirror"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

var runcPath = "github.com/opencontainers/runc/releases/download/" + releases.Current("containerd").With["runc"] + "/runc.amd64"

// few are images and downloads that are quick to make.
func few(t *testing.T) mirror.Options {
	t.Helper()
	short.Skip(t, "images of the lab")
	o := mirror.Options{Progress: func(line string) { t.Log(line) }}
	for _, image := range upstream.Images() {
		if strings.Contains(image.Ref, "/busybox:") || strings.Contains(image.Ref, "/pause:"+releases.Current("kubernetes").With["pause"]) {
			o.Images = append(o.Images, image)
		}
	}
	for _, download := range upstream.Downloads() {
		if download.URL == runcPath || strings.Contains(download.URL, "/cni-plugins") {
			o.Downloads = append(o.Downloads, download)
		}
	}
	return o
}

func serve(t *testing.T, o mirror.Options) *mirror.Mirror {
	t.Helper()
	m, err := mirror.Serve(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close the mirror: %v", err)
		}
	})
	return m
}

func pull(t *testing.T, m *mirror.Mirror, ref string) v1.ImageIndex {
	t.Helper()
	tag, err := name.NewTag(m.Registry()+"/"+ref, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(tag, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func digest(t *testing.T, index v1.ImageIndex) v1.Hash {
	t.Helper()
	h, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestImagesArePulledByTheirUpstreamNames(t *testing.T) {
	o := few(t)
	m := serve(t, o)
	workshop := lab.Workshop(t)
	for _, image := range o.Images {
		pulled := pull(t, m, image.Ref)
		if err := validate.Index(pulled); err != nil {
			t.Errorf("%s: %v", image.Ref, err)
		}
		made, err := workshop.Image(t.Context(), image)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := digest(t, pulled), digest(t, made); got != want {
			t.Errorf("%s is %s, want %s", image.Ref, got, want)
		}
	}
}

func TestExistingImagesAreNotPushed(t *testing.T) {
	o := few(t)
	serve(t, o)
	var pushed []string
	o.Progress = func(line string) {
		if strings.HasPrefix(line, "pushing") {
			pushed = append(pushed, line)
		}
	}
	serve(t, o)
	if len(pushed) > 0 {
		t.Errorf("a second mirror pushed %q", pushed)
	}
}

func get(t *testing.T, url string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestFilesAreServedForCaching(t *testing.T) {
	o := few(t)
	o.Images = []upstream.Image{}
	m := serve(t, o)
	url := "http://" + m.Files() + "/" + runcPath

	whole, body := get(t, url, nil)
	tag := whole.Header.Get("ETag")
	if whole.StatusCode != http.StatusOK || !strings.HasPrefix(body, "\x7fELF") || tag == "" {
		t.Fatalf("got %s with %d bytes and ETag %q", whole.Status, len(body), tag)
	}
	if resp, part := get(t, url, http.Header{"Range": {"bytes=4-9"}}); resp.StatusCode != http.StatusPartialContent || part != body[4:10] {
		t.Errorf("a range gives %s, %q", resp.Status, part)
	}
	if resp, _ := get(t, url, http.Header{"If-None-Match": {tag}}); resp.StatusCode != http.StatusNotModified {
		t.Errorf("an unchanged file gives %s", resp.Status)
	}
	if resp, _ := get(t, "http://"+m.Files()+"/github.com/", nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a folder gives %s", resp.Status)
	}
	if resp, _ := get(t, "http://"+m.Files()+"/github.com/../../etc/passwd", nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a path out of the table gives %s", resp.Status)
	}
}

func TestChecksumsMatchTheirFiles(t *testing.T) {
	o := few(t)
	o.Images = []upstream.Image{}
	m := serve(t, o)
	for _, d := range o.Downloads {
		if d.Checksum == "" {
			continue
		}
		file, _ := get(t, "http://"+m.Files()+"/"+d.URL, nil)
		_, sum := get(t, "http://"+m.Files()+"/"+d.URL+d.Checksum, nil)
		if fields := strings.Fields(sum); len(fields) == 0 || `"`+fields[0]+`"` != file.Header.Get("ETag") {
			t.Errorf("%s: checksum is %q, the file has %s", d.URL, sum, file.Header.Get("ETag"))
		}
	}
}

func TestConfigurationMapsUpstreamsToMirror(t *testing.T) {
	m := serve(t, few(t))
	path := filepath.Join(t.TempDir(), "sealift.yaml")
	if err := m.WriteConfig(path); err != nil {
		t.Fatal(err)
	}
	if err := m.WriteConfig(path); err != nil {
		t.Errorf("its own file is not replaced: %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ Mirrors map[string]string }
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{
		"docker.io":           "http://" + m.Registry() + "/docker.io",
		"registry.k8s.io":     "http://" + m.Registry() + "/registry.k8s.io",
		"https://github.com/": "http://" + m.Files() + "/github.com/",
	} {
		if got := config.Mirrors[from]; got != want {
			t.Errorf("%s goes to %q, want %q", from, got, want)
		}
	}
	for _, from := range []string{"http://ftp.debian.org/debian/", "http://ftp.debian.org/debian-security/"} {
		if to := config.Mirrors[from]; !strings.HasPrefix(to, "http") || !strings.HasSuffix(to, "/") {
			t.Errorf("%s goes to %q", from, to)
		}
	}
}

func TestForeignConfigurationIsKept(t *testing.T) {
	o := few(t)
	o.Images = []upstream.Image{}
	m := serve(t, o)
	path := filepath.Join(t.TempDir(), "sealift.yaml")
	const theirs = "targets: {}\n"
	if err := os.WriteFile(path, []byte(theirs), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := m.WriteConfig(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error is %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != theirs {
		t.Errorf("the file is now %q, %v", text, err)
	}
}

func TestPortInUseFailsAtOnce(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	for _, o := range []mirror.Options{{Registry: address}, {Files: address}} {
		o.Images, o.Downloads = []upstream.Image{}, []upstream.Download{}
		m, err := mirror.Serve(t.Context(), o)
		if err == nil {
			t.Errorf("served on a port that is taken: %v", m.Close())
		} else if !strings.Contains(err.Error(), address) {
			t.Errorf("error is %v, and does not name %s", err, address)
		}
	}
}

func TestCloseIsRepeatable(t *testing.T) {
	o := few(t)
	o.Images = []upstream.Image{}
	m := serve(t, o)
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{m.Registry(), m.Files()} {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			t.Errorf("something still listens on %s", address)
		}
	}
}
