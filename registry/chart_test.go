package registry_test

import (
	"bytes"
	"testing"

	helm "helm.sh/helm/v4/pkg/registry"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/realregistry"
	"github.com/sealift/sealift/registry"
)

// withChart is a package with a file in its folder of charts.
func withChart(t *testing.T, name string, content []byte) *bundle.Archive {
	t.Helper()
	dir := bundle.AddOnDir("app", "1.0")
	p := bundle.Package{Name: "app", Version: "1.0", Platforms: []string{"linux/amd64"}, Files: []bundle.File{
		bundle.BytesFile(dir+"/Manifest", 0o644, nil), bundle.BytesFile(dir+"/charts/"+name, 0o644, content),
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

// TestHelmPullsPushedCharts uses a version with a plus, which Helm writes as an underscore in tags.
func TestHelmPullsPushedCharts(t *testing.T) {
	chart := fixture.ChartArchive(t, "hello", fixture.HelloChart(map[string]string{"Chart.yaml": "apiVersion: v2\nname: hello\nversion: 1.2.3+build\n"}))
	host := realregistry.Start(t)
	a := withChart(t, "hello-1.2.3+build.tgz", chart)
	done, err := push(t.Context(), a, options(t, host))
	if err != nil || len(done.Images) != 1 || done.Images[0].Kind != registry.KindChart || done.Images[0].Target != host+"/mirror/charts/hello:1.2.3_build" {
		t.Fatalf("%+v, %v", done, err)
	}
	client, err := helm.NewClient(helm.ClientOptPlainHTTP())
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := client.Pull(host + "/mirror/charts/hello:1.2.3+build")
	if err != nil || !bytes.Equal(pulled.Chart.Data, chart) || pulled.Chart.Meta.Version != "1.2.3+build" {
		t.Errorf("Helm pulls %+v, %v", pulled, err)
	}
	if again, err := push(t.Context(), a, options(t, host)); err != nil || again.Send != 0 || again.Images[0].State != registry.Present {
		t.Errorf("again: %+v, %v", again, err)
	}
	if files, err := registry.Configuration(done, options(t, host).Target, ""); err != nil || files["certs.d/charts/hosts.toml"] != "" {
		t.Errorf("charts count as a registry of images: %v, %v", files, err)
	}
}

func TestInvalidChartsAreNamed(t *testing.T) {
	for what, content := range map[string][]byte{
		"not an archive":   []byte("text"),
		"no Chart.yaml":    fixture.ChartArchive(t, "hello", map[string]string{"values.yaml": ""}),
		"a capital letter": fixture.ChartArchive(t, "hello", map[string]string{"Chart.yaml": "name: Hello\nversion: 1.0.0\n"}),
		"no version":       fixture.ChartArchive(t, "hello", map[string]string{"Chart.yaml": "name: hello\n"}),
	} {
		if _, err := registry.Prepare(t.Context(), withChart(t, "x.tgz", content), options(t, "127.0.0.1:1")); err == nil || !bytes.Contains([]byte(err.Error()), []byte("charts/x.tgz")) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
