package main

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestStatusFindsVulnerabilitiesOfClusterImages uses a node with an image of a bundle and one that no bundle has. A second image of the bundle, which
// is vulnerable, too, is not in the cluster.
func TestStatusFindsVulnerabilitiesOfClusterImages(t *testing.T) {
	program := func(net string) [][]byte {
		return [][]byte{fixture.Layer(t, [2]string{"tool", string(fixture.GoProgram("go1.26.1", "path example.org/tool", "dep golang.org/x/net "+net+" h1:a"))})}
	}
	archive := fixture.ImagePackage(t, map[string][][]byte{"example.org/app:1": program("v0.20.0"), "example.org/other:1": program("v0.19.0")}, nil, bundle.WriteOptions{})
	opened, err := bundle.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	digest := ""
	for _, i := range opened.Index.Packages[0].Images {
		if i.Ref == "example.org/app:1" {
			digest = i.Digest
		}
	}
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	config := controlplane.ForTest(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, config); err != nil {
		t.Fatal(err)
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	if node, err = client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"example.org/app@" + digest, "example.org/app:1"}}, {Names: []string{"example.org/foreign:1"}}}
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	work := fixture.Folder(t, map[string]string{"osv/a.json": `{"id": "GO-2026-1", "modified": "2026-05-01T00:00:00Z", "affected": [{"package": {"ecosystem": "Go", "name": "golang.org/x/net"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": "0.23.0"}]}]}]}`})
	database := filepath.Join(work, "db.tar.gz")
	if code, _, said := command(t, "vulndb", "pull", "--from", filepath.Join(work, "osv"), "--out", database); code != app.ExitDone {
		t.Fatal(said)
	}
	status := []string{"status", "--vulnerabilities", database, "--kubeconfig", kubeconfig}
	code, out, said := command(t, append(status, "--bundle", archive, "--fail-on", "any")...)
	if code != app.ExitRefused || !strings.Contains(said, "1 vulnerability of any severity") {
		t.Errorf("exit %d: %s", code, said)
	}
	for _, want := range []string{"GO-2026-1  golang.org/x/net v0.20.0  fixed in 0.23.0\n", "  example.org/app:1 /tool of layer sha256:", "  image example.org/foreign:1 on one: none of the bundles has it\n",
		"  known    example.org/app:1      one\n", "  unknown  example.org/foreign:1  one\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "v0.19.0") {
		t.Errorf("an image that the cluster does not have is listed:\n%s", out)
	}
	for _, args := range [][]string{status, {"status", "--bundle", archive}, {"status", "--fail-on", "high"}} {
		if code, _, said := command(t, args...); code != app.ExitUsage {
			t.Errorf("%v: exit %d: %s", args, code, said)
		}
	}
}
