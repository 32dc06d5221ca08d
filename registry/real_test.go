package registry_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/testing/realregistry"
	"github.com/sealift/sealift/registry"
)

// TestClustersFindPushedImages pushes to distribution, and lets containerd and skopeo find the images there, by the written configuration.
func TestClustersFindPushedImages(t *testing.T) {
	host, images := realregistry.Start(t), several(t)
	a := content(t, images)
	o := options(t, host)
	planned, err := registry.Prepare(t.Context(), a, o)
	if err != nil {
		t.Fatal(err)
	}
	done, err := planned.Run(t.Context())
	if err != nil || done.Send != planned.Send || done.Mounted != planned.Mounted || done.Mounted == 0 {
		t.Fatalf("sent %d of %d, copied %d of %d, %v", done.Send, planned.Send, done.Mounted, planned.Mounted, err)
	}
	if again, err := push(t.Context(), a, o); err != nil || again.Send+again.Mounted != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}

	files, err := registry.Configuration(done, o.Target, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	resolver := docker.NewResolver(docker.ResolverOptions{Hosts: config.ConfigureHosts(t.Context(), config.HostOptions{HostDir: config.HostDirFromRoot(filepath.Join(dir, "certs.d"))})})
	for ref, image := range images {
		check(t, host+"/mirror/"+ref, image)
		want, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		repository, _, _ := strings.Cut(ref, ":")
		for _, name := range []string{ref, repository + "@" + want.String()} {
			if _, found, err := resolver.Resolve(t.Context(), name); err != nil || found.Digest.String() != want.String() {
				t.Errorf("containerd finds %s as %s, %v", name, found.Digest, err)
			}
		}
		out, err := exec.CommandContext(t.Context(), "skopeo", "inspect", "--tls-verify=false", "--override-os=linux", "--override-arch=amd64", "--format={{.Digest}}", "docker://"+host+"/mirror/"+ref).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want.String() {
			t.Errorf("skopeo finds %s as %s, %v", ref, out, err)
		}
	}
}

// TestDistributionTakesWhatBundleHas pushes an index to a real registry that refuses it, because one of its platforms is absent.
func TestDistributionTakesWhatBundleHas(t *testing.T) {
	host := realregistry.Start(t)
	amd, other := platformImage(t, "amd64", layer(t, 1)), platformImage(t, "s390x", layer(t, 3))
	absent, err := other.Digest()
	if err != nil {
		t.Fatal(err)
	}
	a := content(t, map[string]v1Index{"registry.k8s.io/app:v1": index(amd, other)}, absent.Hex)
	got, err := push(t.Context(), a, options(t, host))
	if err != nil || got.Images[0].Note == "" {
		t.Fatalf("%+v, %v", got, err)
	}
	check(t, host+"/mirror/registry.k8s.io/app:v1", amd)
}

func TestConfigurationNamesMirrors(t *testing.T) {
	target := registry.Target{Host: "harbor.corp:8443", Prefix: "mirror"}
	s := registry.Summary{Images: []registry.Image{
		{Ref: "busybox:1.35", Target: "harbor.corp:8443/mirror/docker.io/library/busybox:1.35"},
		{Ref: "reg.example:5000/app:1", Target: "harbor.corp:8443/mirror/reg.example_5000/app:1"},
		{Ref: "reg.example:5000/b:1", Target: "harbor.corp:8443/mirror/reg.example_5000/b:1"},
		{Ref: "Reg.Example/b:1", Target: "harbor.corp:8443/mirror/reg.example/b:1"},
		{Ref: "[2001:db8::1]:5000/b:1", Target: "harbor.corp:8443/mirror/2001-0db8-0000-0000-0000-0000-0000-0001_5000/b:1"},
	}}
	files, err := registry.Configuration(s, target, "CA\n")
	if err != nil || len(files) != 11 || files["certs.d/Reg.Example/hosts.toml"] == "" || files["certs.d/[2001:db8::1]:5000/hosts.toml"] == "" {
		t.Fatal(files, err)
	}
	want := `server = "https://harbor.corp:8443/v2/mirror/reg.example_5000"

[host."https://harbor.corp:8443/v2/mirror/reg.example_5000"]
  capabilities = ["pull", "resolve"]
  override_path = true
  ca = "ca.crt"
`
	if got := files["certs.d/reg.example:5000/hosts.toml"]; got != want || files["certs.d/docker.io/ca.crt"] != "CA\n" {
		t.Errorf("hosts.toml is %s", got)
	}
	var k3s struct {
		Mirrors map[string]struct {
			Endpoint []string
			Rewrite  map[string]string
		}
		Configs map[string]struct{ TLS map[string]string }
	}
	if err := yaml.UnmarshalStrict([]byte(files["k3s/registries.yaml"]), &k3s); err != nil || k3s.Mirrors["docker.io"].Rewrite["^(.*)$"] != "mirror/docker.io/$1" ||
		k3s.Mirrors["docker.io"].Endpoint[0] != "https://harbor.corp:8443" || k3s.Configs["harbor.corp:8443"].TLS["ca_file"] == "" {
		t.Errorf("registries.yaml is %s, %v", files["k3s/registries.yaml"], err)
	}
	byDigest, byTag, _ := strings.Cut(files["openshift/mirrors.yaml"], "---\n")
	for kind, text := range map[string]string{"ImageDigestMirrorSet": byDigest, "ImageTagMirrorSet": byTag} {
		if !strings.Contains(text, "kind: "+kind+"\n") || !strings.Contains(text, "- harbor.corp:8443/mirror/docker.io\n") || !strings.Contains(text, "source: docker.io\n") {
			t.Errorf("%s: %s", kind, text)
		}
	}
}
