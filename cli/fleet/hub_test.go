package fleet_test

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/fleet"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

// journal is an output that may be read while it is written.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// TestFleetHub runs the command on an empty cluster, until a user who creates a HelmChartProxy gets a result.
func TestFleetHub(t *testing.T) {
	t.Parallel()
	cfg := controlplane.ForTest(t)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(file, cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := new(journal)
	over := make(chan int, 1)
	go func() {
		over <- app.Run(ctx, "fleet", fleet.Command, []string{"hub", "--kubeconfig", file, "--listen", "127.0.0.1:0", "--chart-scheme", "file"}, strings.NewReader(""), io.Discard, log)
	}()
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	charts := client.Resource(schema.GroupVersionResource{Group: "addons.cluster.x-k8s.io", Version: "v1alpha1", Resource: "helmchartproxies"}).Namespace("default")
	made := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "addons.cluster.x-k8s.io/v1alpha1", "kind": "HelmChartProxy", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"clusterSelector": map[string]any{}, "chartName": "web", "repoURL": "file:///charts"},
	}}
	_, err = charts.Create(ctx, made, metav1.CreateOptions{})
	for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); _, err = charts.Create(ctx, made, metav1.CreateOptions{}) {
		time.Sleep(100 * time.Millisecond) // until the kind is served
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		got, err := charts.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
		if len(conditions) == 3 && slices.Contains(got.GetFinalizers(), "helmchartproxy.addons.cluster.x-k8s.io") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute the proxy is %v\n%s", got, log)
		}
	}
	cancel()
	select {
	case code := <-over:
		if code != app.ExitDone || !strings.Contains(log.String(), "the hub runs") {
			t.Errorf("the hub ended with %d\n%s", code, log)
		}
	case <-time.After(time.Minute):
		t.Fatal("the hub does not end")
	}
}
