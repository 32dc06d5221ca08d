package assemble

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
)

func packageOf(t *testing.T, name string, images []bundle.Image, files map[string]string) *bundle.Archive {
	t.Helper()
	return versionOf(t, name, "1.0", images, files)
}

func versionOf(t *testing.T, name, version string, images []bundle.Image, files map[string]string) *bundle.Archive {
	t.Helper()
	p := bundle.Package{Name: name, Version: version, Platforms: []string{"linux/amd64"}, Contents: bundle.Contents{Images: images}}
	for path, text := range files {
		p.Files = append(p.Files, bundle.BytesFile(bundle.AddOnDir(name, version)+"/"+path, 0o644, []byte(text)))
	}
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

func TestMissingSandboxImageIsRefused(t *testing.T) {
	const ref = "registry.k8s.io/pause:3.10.1"
	third := map[string]string{"config.tmpl.toml": "[plugins.'io.containerd.cri.v1.images'.pinned_images]\n  sandbox = '" + ref + "'\n"}
	second := map[string]string{"conf/old.toml": "[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"" + ref + "\"\n"}
	carrier := packageOf(t, "kubernetes", []bundle.Image{{ID: "pause", Ref: ref}}, nil)
	newer := packageOf(t, "kubernetes", []bundle.Image{{ID: "pause", Ref: "registry.k8s.io/pause:3.10.2"}}, nil)
	for name, files := range map[string]map[string]string{"version 3": third, "version 2": second} {
		runtime := packageOf(t, "containerd", nil, files)
		if err := checkSandbox([]*bundle.Archive{runtime, carrier}); err != nil {
			t.Errorf("%s, carried: %v", name, err)
		}
		if err := checkSandbox([]*bundle.Archive{runtime, newer}); err == nil || !strings.Contains(err.Error(), "names the sandbox image "+ref) {
			t.Errorf("%s, not carried: %v", name, err)
		}
	}
	filled := packageOf(t, "containerd", nil, map[string]string{"config.tmpl.toml": "sandbox = '${PAUSE_IMAGE}'\n"})
	if err := checkSandbox([]*bundle.Archive{filled, newer}); err != nil {
		t.Errorf("one that a hook fills in: %v", err)
	}
}

// From 2.3.0 to 2.3.3, containerd does not find an image with a tag and a digest.
func TestUnusableSandboxImageIsRefused(t *testing.T) {
	const both = "registry.k8s.io/pause:3.10.2@sha256:00"
	runtime := func(version, text string) *bundle.Archive {
		return versionOf(t, "containerd", version, nil, map[string]string{"config.tmpl.toml": text})
	}
	carrier := packageOf(t, "kubernetes", []bundle.Image{{ID: "pause", Ref: both}}, nil)
	other := packageOf(t, "app", []bundle.Image{{ID: "own", Ref: both}}, nil)
	for name, row := range map[string]struct {
		archives []*bundle.Archive
		refused  bool
	}{
		"a hook fills it in":   {[]*bundle.Archive{runtime("2.3.1", "sandbox = '${PAUSE_IMAGE}'\n"), carrier}, true},
		"the package names it": {[]*bundle.Archive{other, runtime("2.3.3", "sandbox = '"+both+"'\n")}, true},
		"repaired":             {[]*bundle.Archive{runtime("2.3.4", "sandbox = '"+both+"'\n"), carrier}, false},
		"another package":      {[]*bundle.Archive{versionOf(t, "crio", "2.3.1", nil, nil), carrier}, false},
	} {
		if err := checkSandbox(row.archives); (err != nil) != row.refused || row.refused && !strings.Contains(err.Error(), "which has a tag and a digest") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
