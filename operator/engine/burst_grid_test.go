//go:build grid

package engine_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/kube"
)

// burst is how many objects change at once.
const burst = 10_000

// TestBurstLosesNoEvent changes each of 10,000 watched objects once, and restarts the API server in the middle. The hook gets
// each change, once, and never runs concurrently.
func TestBurstLosesNoEvent(t *testing.T) {
	server := controlplane.StartForTest(t, controlplane.Options{})
	cluster, err := kube.Connect(server.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, cluster: cluster, dir: t.TempDir(), trace: t.TempDir() + "/trace", log: &fixture.Buffer{}}
	ref := kube.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "default"}
	maps, err := cluster.Objects(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	each := func(do func(ctx context.Context, name string) error) {
		var group sync.WaitGroup
		numbers := make(chan int)
		for range 8 {
			group.Go(func() {
				for n := range numbers {
					if err := cluster.Retry(t.Context(), ref, func(ctx context.Context) error { return do(ctx, fmt.Sprintf("object-%05d", n)) }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for n := range burst {
			numbers <- n
		}
		close(numbers)
		group.Wait()
	}
	each(func(ctx context.Context, name string) error {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "labels": map[string]any{"burst": "yes"}},
			"data": map[string]any{"x": "before"}}}
		_, err := maps.Apply(ctx, name, obj, metav1.ApplyOptions{FieldManager: "test"})
		return err
	})

	hook := `#!/bin/bash
if [[ $1 == --config ]]; then cat <<'CONFIG'
configVersion: v1
kubernetes:
- {name: maps, kind: ConfigMap, labelSelector: {matchLabels: {burst: "yes"}}, jqFilter: "[.metadata.name, .data.x]", keepFullObjectsInMemory: false}
CONFIG
exit; fi
mkdir "$TRACE.running" || echo twice >> "$TRACE"
jq -r '.[] | select(.type == "Event") | [.watchEvent] + .filterResult | join(" ")' "$BINDING_CONTEXT_PATH" >> "$TRACE"
rmdir "$TRACE.running"
`
	if err := fixture.WriteProgram(s.dir+"/hook.sh", hook); err != nil {
		t.Fatal(err)
	}
	e, _ := s.start()
	s.until("ready", e.Ready)
	restarted := make(chan error, 1)
	var half sync.Once
	began := time.Now()
	each(func(ctx context.Context, name string) error {
		if name == fmt.Sprintf("object-%05d", burst/2) {
			half.Do(func() { go func() { restarted <- server.Restart(t.Context()) }() })
		}
		_, err := maps.Patch(ctx, name, "application/merge-patch+json", []byte(`{"data":{"x":"after"}}`), metav1.PatchOptions{})
		return err
	})
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	wrote := time.Since(began)
	s.until("all events have come", func() bool { return len(s.runs()) >= burst })
	t.Logf("%d objects changed in %s, and their events came within %s after that; rss %s", burst, wrote.Round(time.Second), (time.Since(began) - wrote).Round(time.Millisecond), resident(t))
	seen := map[string]int{}
	for _, run := range s.runs() {
		seen[run]++
	}
	if len(seen) != burst {
		t.Errorf("%d different lines", len(seen))
	}
	for n := range burst {
		if line := fmt.Sprintf("Modified object-%05d after", n); seen[line] != 1 {
			t.Errorf("%q %d times", line, seen[line])
		}
	}
}

// resident is the resident memory of this process, such as "90000 kB".
func resident(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}
