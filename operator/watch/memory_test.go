package watch_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/watch"
)

// objectCount is how many objects are watched, each of about 2 KiB.
const objectCount = 10_000

// BenchmarkMemory shows the cost of watched objects: rss/JSON is the growth of the process for each byte of their JSON, and
// B/object that for one more object.
func BenchmarkMemory(b *testing.B) {
	cluster, err := kube.Connect(controlplane.ForTest(b), nil)
	if err != nil {
		b.Fatal(err)
	}
	fill(b, cluster)
	for _, c := range []struct{ name, text, second string }{
		{"full", "{kind: ConfigMap}", ""},
		{"two bindings", "{kind: ConfigMap}", "{kind: ConfigMap, jqFilter: .metadata.name}"},
		{"filter alone", "{kind: ConfigMap, jqFilter: .data.index, keepFullObjectsInMemory: false}", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				measure(b, cluster, c.text, c.second)
			}
		})
	}
}

func fill(b *testing.B, cluster *kube.Cluster) {
	b.Helper()
	maps, err := cluster.Objects(b.Context(), kube.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "default"})
	if err != nil {
		b.Fatal(err)
	}
	var group sync.WaitGroup
	numbers := make(chan int)
	for range 8 {
		group.Go(func() {
			for n := range numbers {
				obj := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprintf("object-%05d", n)},
					"data": map[string]any{"index": strconv.Itoa(n), "text": strings.Repeat("0123456789abcdef", 100)},
				}}
				if _, err := maps.Create(b.Context(), obj, metav1.CreateOptions{}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for n := range objectCount {
		numbers <- n
	}
	close(numbers)
	group.Wait()
}

func measure(b *testing.B, cluster *kube.Cluster, bindings ...string) {
	b.Helper()
	w := watch.New(b.Context(), cluster, nil)
	before := rss(b)
	var total, objects int
	var subs []*watch.Subscription
	for _, text := range bindings {
		if text == "" {
			continue
		}
		c, err := binding.Parse("hook", []byte("configVersion: v1\nkubernetes: ["+text+"]"), binding.Shell)
		if err != nil {
			b.Fatal(err)
		}
		sub := w.Subscribe(c.Kubernetes[0], func(watch.Change) {})
		select {
		case <-sub.Synced():
		case <-time.After(5 * time.Minute):
			b.Fatal("no list within five minutes")
		}
		subs = append(subs, sub)
		objects, total = sub.Size()
	}
	if objects < objectCount {
		b.Fatalf("%d objects", objects)
	}
	grown := rss(b) - before
	b.ReportMetric(float64(grown)/float64(total), "rss/JSON")
	b.ReportMetric(float64(grown)/float64(objects), "B/object")
	b.ReportMetric(float64(total)/float64(objects), "JSON-B/object")
	for _, sub := range subs {
		sub.Stop()
	}
}

// rss is the resident memory of this process after all garbage was given back, in bytes.
func rss(b *testing.B) int {
	b.Helper()
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	var size, resident int
	if _, err := fmt.Sscan(string(data), &size, &resident); err != nil {
		b.Fatal(err)
	}
	return resident * os.Getpagesize()
}
