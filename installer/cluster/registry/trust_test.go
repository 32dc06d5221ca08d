package registry_test

import (
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sealift/sealift/installer/cluster/registry"
	"github.com/sealift/sealift/kube"
)

// contents are the files below a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(folder, name)
		if err != nil || below == "." {
			return err
		}
		if d.IsDir() {
			found[below+"/"] = ""
			return nil
		}
		text, err := os.ReadFile(name)
		found[below] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// trusting are the files for the registry at an address, as it stands in a URL.
func trusting(address string) map[string]string {
	text := "server = \"https://" + address + "\"\nca = \"/ca.crt\"\n"
	return map[string]string{
		registry.Host + "/": "", registry.Host + "/hosts.toml": text, address + "/": "", address + "/hosts.toml": text, address + ":443/": "", address + ":443/hosts.toml": text,
	}
}

// has writes the settings of a host as somebody else does, and returns the file.
func has(t *testing.T, folder, host, text string) (file string) {
	t.Helper()
	file = filepath.Join(folder, host, "hosts.toml")
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTrustFollowsRegistry gives the registry addresses, and none, in sequence.
func TestTrustFollowsRegistry(t *testing.T) {
	trust := registry.Trust{Folder: filepath.Join(t.TempDir(), "certs.d"), CA: "/ca.crt"}
	if changed, err := trust.Set(netip.Addr{}); changed || err != nil {
		t.Errorf("without a folder: %t, %v", changed, err)
	}
	others := map[string]string{"docker.io/": "", "docker.io/hosts.toml": "server = \"https://mirror\"\n"}
	has(t, trust.Folder, "docker.io", others["docker.io/hosts.toml"])
	for _, step := range []struct {
		address, url string
		changes      bool
	}{
		{"10.96.0.9", "10.96.0.9", true}, {"10.96.0.9", "10.96.0.9", false}, {"10.96.0.7", "10.96.0.7", true}, {"fd00::9", "[fd00::9]", true},
		{"", "", true}, {"", "", false}, {"10.96.0.9", "10.96.0.9", true},
	} {
		var address netip.Addr
		want := maps.Clone(others)
		if step.address != "" {
			address = netip.MustParseAddr(step.address)
			maps.Copy(want, trusting(step.url))
		}
		changed, err := trust.Set(address)
		if diff := cmp.Diff(want, contents(t, trust.Folder)); diff != "" || err != nil || changed != step.changes {
			t.Errorf("at %q: changed is %t, %v\n%s", step.address, changed, err, diff)
		}
	}
}

// TestForeignTrustStays has files that neither Trust nor the add-on's hook wrote.
func TestForeignTrustStays(t *testing.T) {
	for name, text := range map[string]string{
		"another server":   "server = \"https://registry.example.com\"\nca = \"/ca.crt\"\n",
		"another setting":  "server = \"https://10.96.0.9\"\nca = \"/ca.crt\"\nskip_verify = true\n",
		"another order":    "ca = \"/ca.crt\"\nserver = \"https://10.96.0.9\"\n",
		"not an address":   "server = \"https://....\"\nca = \"/ca.crt\"\n",
		"an open bracket":  "server = \"https://[\"\nca = \"/ca.crt\"\n",
		"an empty bracket": "server = \"https://[]\"\nca = \"/ca.crt\"\n",
		"nothing":          "",
	} {
		t.Run(name, func(t *testing.T) {
			trust := registry.Trust{Folder: t.TempDir(), CA: "/ca.crt"}
			has(t, trust.Folder, registry.Host, text)
			for _, address := range []netip.Addr{netip.MustParseAddr("10.96.0.9"), {}} {
				if _, err := trust.Set(address); err != nil {
					t.Error(err)
				}
				if got := contents(t, trust.Folder)[registry.Host+"/hosts.toml"]; got != text {
					t.Errorf("at %q the file is\n%s", address, got)
				}
			}
		})
	}
}

// TestNodesFollowServiceOfRegistry uses a registry that appears, cannot be read, is of another owner, and disappears.
func TestNodesFollowServiceOfRegistry(t *testing.T) {
	trust := registry.Trust{Folder: t.TempDir(), CA: "/ca.crt"}
	var service *corev1.Service
	var failure error
	client := fake.NewClientset()
	client.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		if failure != nil {
			return true, nil, failure
		}
		return true, service, nil
	})
	notFound := apierrors.NewNotFound(corev1.Resource("services"), "registry")
	of := func(set, address string) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "registry", Name: "registry"}, Spec: corev1.ServiceSpec{ClusterIP: address}}
		if set != "" {
			s.Labels = map[string]string{"applyset.kubernetes.io/part-of": kube.Set{Name: set}.ID()}
		}
		return s
	}
	for _, step := range []struct {
		when    string
		service *corev1.Service
		failure error
		want    map[string]string
		fails   bool
	}{
		{"before", nil, notFound, map[string]string{}, false},
		{"somebody else's", of("", "10.96.0.9"), nil, map[string]string{}, false},
		{"another add-on's", of("other", "10.96.0.9"), nil, map[string]string{}, false},
		{"installed", of("registry", "10.96.0.9"), nil, trusting("10.96.0.9"), false},
		{"unknown", nil, apierrors.NewServiceUnavailable("down"), trusting("10.96.0.9"), true},
		{"forbidden", nil, apierrors.NewForbidden(corev1.Resource("services"), "registry", nil), trusting("10.96.0.9"), true},
		{"without an address", of("registry", "None"), nil, trusting("10.96.0.9"), true},
		{"moved", of("registry", "10.96.0.7"), nil, trusting("10.96.0.7"), false},
		{"removed", nil, notFound, map[string]string{}, false},
	} {
		service, failure = step.service, step.failure
		_, err := registry.Follow(t.Context(), client, trust)
		if diff := cmp.Diff(step.want, contents(t, trust.Folder)); diff != "" || (err != nil) != step.fails {
			t.Errorf("%s: %v\n%s", step.when, err, diff)
		}
	}
}

func FuzzTrust(f *testing.F) {
	f.Add("server = \"https://10.96.0.9\"\nca = \"/ca.crt\"\n")
	f.Add("server = \"https://[fd00::9]\"\nca = \"/ca.crt\"\n")
	f.Add("server = \"https://[\"\nca = \"/\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		trust := registry.Trust{Folder: t.TempDir(), CA: "/ca.crt"}
		file := has(t, trust.Folder, registry.Host, text)
		changed, err := trust.Set(netip.Addr{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(file); (err != nil) != changed {
			t.Errorf("changed is %t: %v", changed, err)
		}
	})
}
