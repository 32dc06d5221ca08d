package fleet

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestImagesAreSentToSealiftNodes uses a cluster without nodes, with a foreign one, and with one of Sealift.
func TestImagesAreSentToSealiftNodes(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	var output bytes.Buffer
	n := nodes{controlplane.ForTest(t), &output}
	if err := n.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no sealift") {
		t.Errorf("without a program: %v", err)
	}
	script := `#!/bin/sh
echo "$@" >&2
echo '{"nodes": ["one", "two"], "away": ["three"]}'
case "$3" in
broken) exit 1 ;;
hangs) /bin/sleep 300 ;;
esac
`
	if err := fixture.WriteProgram(filepath.Join(bin, "sealift"), script); err != nil {
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
	got, err := n.Bring(t.Context(), "content")
	if err != nil || !slices.Equal(got, []string{"one", "two"}) || output.String() != "images load content --all-nodes -o json\n" {
		t.Errorf("%v, %q, %v", got, output.String(), err)
	}
	if _, err := n.Bring(t.Context(), "broken"); err == nil {
		t.Error("sealift failed, and nobody says so")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begun := time.Now()
	if _, err := n.Bring(ctx, "hangs"); err == nil || time.Since(begun) > time.Minute {
		t.Errorf("a sealift that hangs was waited for, for %s: %v", time.Since(begun), err)
	}
}
