package status

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/spec/record"
)

// earlier is the journal of a control plane that an earlier sealift made: without operations and digests of options.
const earlier = `{"time":"2025-01-01T00:00:00Z","step":"kubernetes/files","phase":"pre-init","addOn":"kubernetes","inputs":"a","outcome":"finished","state":{"SEALIFT_ADDON_VERSION":"1.34.4"}}
{"time":"2025-01-01T00:00:01Z","step":"store/files","phase":"pre-init","addOn":"store","inputs":"a","outcome":"finished","state":{"SEALIFT_ADDON_VERSION":"1.0"}}
{"time":"2025-01-01T00:00:02Z","step":"kubernetes/init","phase":"install","addOn":"kubernetes","inputs":"once","outcome":"finished"}
{"time":"2025-01-01T00:00:03Z","step":"store/install","phase":"install","addOn":"store","inputs":"a","outcome":"finished"}
`

// secretInstaller is an Installer with secrets in all possible places.
const secretInstaller = `apiVersion: sealift.dev/v1
kind: Installer
metadata: {name: site}
spec:
  kubernetes: {version: 1.34.4, serviceCIDR: 10.96.0.0/22, bootstrapToken: hunter2}
  store: {version: "2.0", endpoint: "https://me:hunter2@store.example.com/", settings: {level: 3, password: hunter2}, config: "size: 3\npassword: hunter2\n"}
  kurl: {proxyAddress: "http://me:hunter2@10.0.0.1:3128"}
  helm: {helmfileSpec: "password: hunter2"}
`

func TestRecordListsClusterVersions(t *testing.T) {
	config := controlplane.ForTest(t)
	nodes := clientset.NewForConfigOrDie(config).CoreV1().Nodes()
	for name, version := range map[string]string{"host-1": "v1.35.4", "host-2": "v1.34.4"} {
		n, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{cluster.ControlPlaneLabel: ""}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: version, ContainerRuntimeVersion: "containerd://2.2.1", OSImage: "Debian GNU/Linux 12 (bookworm)", KernelVersion: "6.1.0", Architecture: "amd64"}
		if _, err := nodes.UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	index := installedIndex(t)
	put(filepath.Join(root, bundle.IndexName), string(index))
	put(filepath.Join(node.StateDir(root), "journal.jsonl"), earlier)
	put(filepath.Join(root, bundle.InstallerName), secretInstaller) // all that an earlier sealift kept

	view, err := cluster.ViewOf(config, false)
	if err != nil {
		t.Fatal(err)
	}
	made, err := recordOf(t.Context(), root, "v1.0.0", view)
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.Encode()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", text)
	if strings.Contains(string(text), "hunter2") || strings.Contains(string(text), "10.0.0.1") {
		t.Error("the record has secrets, or settings of hosts")
	}
	r, err := record.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.Installer, "level: 3") || !strings.Contains(r.Installer, "10.96.0.0/22") || !strings.Contains(r.Installer, `"2.0"`) {
		t.Errorf("the Installer lost options that are no secrets:\n%s", r.Installer)
	}
	if r.Kubernetes != "1.34.4" || len(r.Nodes) != 2 || r.Nodes[0].Runtime != "containerd://2.2.1" || !slices.Equal(r.Nodes[0].Roles, []string{"control-plane"}) {
		t.Errorf("%+v", r)
	}
	// the journal shows that the upgrade of the store never finished
	if want := []record.AddOn{{Name: "kubernetes", Version: "1.34.4"}, {Name: "store", Version: "1.0"}}; !slices.Equal(r.AddOns, want) {
		t.Errorf("add-ons %v instead of %v", r.AddOns, want)
	}
	installed, err := bundle.NewUnpacked(index, nil, nil)
	if err != nil || r.Bundle != installed.Digest || len(installed.Index.Packages) != 2 || len(r.Packages) != 1 || r.Packages[0].Version != "1.0" {
		t.Errorf("%v: %+v", err, r)
	}
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte("addons/store/1.0"))); len(r.Packages) != 1 || r.Packages[0].Lean[strings.Repeat("a", 64)] != want {
		t.Errorf("the record does not say that a layer is lean: %+v", r.Packages)
	}
}

// leanLayer is a file that replaces the layer with the digest aaa….
func leanLayer(addOn string) bundle.File {
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(addOn)))
	f := bundle.BytesFile(addOn+"/images/blobs/sha256/"+sum, 0o644, []byte(addOn))
	f.Layer = &bundle.Layer{Blob: strings.Repeat("a", 64), DiffID: sum, Size: 1, Compression: bundle.Zstd, Window: 1 << 20}
	return f
}

// installedIndex is the index of a bundle with the running package, and an intermediate version.
func installedIndex(t *testing.T) []byte {
	t.Helper()
	var packages []*bundle.Archive
	for _, version := range []string{"0.9", "1.0"} {
		var packed bytes.Buffer
		if _, err := bundle.WritePackage(t.Context(), &packed, bundle.Package{Name: "store", Version: version, Platforms: []string{"linux/amd64"},
			Files: []bundle.File{bundle.BytesFile("addons/store/"+version+"/Manifest", 0o644, nil), leanLayer("addons/store/" + version)}}, bundle.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		one, err := bundle.NewArchive(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, one)
	}
	var out bytes.Buffer
	if _, err := bundle.WriteBundle(t.Context(), &out, bundle.Bundle{Packages: packages}); err != nil {
		t.Fatal(err)
	}
	all, err := bundle.NewArchive(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	index, _ := all.Raw()
	return index
}
