package fleet

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/intent"
	"github.com/sealift/sealift/testgrid/controlplane"
)

// TestImagesGoToTheNodesOfSealift has a cluster without nodes, with one that somebody else installed, and with one of Sealift.
func TestImagesGoToTheNodesOfSealift(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	var output bytes.Buffer
	n := nodes{controlplane.ForTest(t), &output}
	if err := n.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no sealift") {
		t.Errorf("without a program: %v", err)
	}
	script := "#!/bin/sh\necho \"$@\"\ntest \"$3\" != broken\n"
	if err := os.WriteFile(filepath.Join(bin, "sealift"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(n.cluster)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		node string
		by   map[string]string
		want string
	}{{"", nil, "--images-loaded"}, {"of-somebody", nil, "--images-loaded"}, {"of-sealift", map[string]string{intent.AgentAnnotation: "{}"}, ""}} {
		if row.node != "" {
			_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: row.node, Annotations: row.by}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Check(t.Context()); (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("with node %q: %v", row.node, err)
		}
	}
	if err := n.Bring(t.Context(), "content"); err != nil || output.String() != "images load content --all-nodes\n" {
		t.Errorf("%q, %v", output.String(), err)
	}
	if err := n.Bring(t.Context(), "broken"); err == nil {
		t.Error("sealift failed, and nobody says so")
	}
}
