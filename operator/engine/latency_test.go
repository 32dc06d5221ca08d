package engine_test

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/hook"
)

// eventCount is how many events are measured. The medians are compared.
const eventCount = 50

// BenchmarkEvent compares the time from an event in a bare watch to the first instruction of the hook with the time that
// starting the same hook takes.
func BenchmarkEvent(b *testing.B) {
	cluster, err := kube.Connect(controlplane.ForTest(b), nil)
	if err != nil {
		b.Fatal(err)
	}
	maps, err := cluster.Objects(b.Context(), kube.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "default"})
	if err != nil {
		b.Fatal(err)
	}
	dir, trace := b.TempDir(), filepath.Join(b.TempDir(), "trace")
	path := filepath.Join(dir, "hook.sh")
	text := "#!/bin/bash\necho $EPOCHREALTIME >> " + trace + "\n[[ $1 != --config ]] || echo '{configVersion: v1, kubernetes: [{kind: ConfigMap, executeHookOnSynchronization: false}]}'\n"
	if err := fixture.WriteProgram(path, text); err != nil {
		b.Fatal(err)
	}
	stamps := func(want int) []time.Time {
		for {
			data, _ := os.ReadFile(trace)
			if lines := strings.Fields(string(data)); len(lines) >= want && strings.HasSuffix(string(data), "\n") {
				return stamps(b, lines)
			}
			time.Sleep(time.Millisecond)
		}
	}
	e, err := engine.Load(b.Context(), engine.Options{HooksDir: dir, Cluster: cluster, Log: slog.New(slog.DiscardHandler), Runner: hook.Runner{TempDir: b.TempDir()}})
	if err != nil {
		b.Fatal(err)
	}
	go e.Run(b.Context())
	for !e.Ready() {
		time.Sleep(10 * time.Millisecond)
	}
	bare, err := maps.Watch(b.Context(), metav1.ListOptions{FieldSelector: "metadata.name=measured"})
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Stop()
	for b.Loop() {
		var events, starts []time.Duration
		for n := range eventCount {
			before := len(stamps(1))
			if _, err := maps.Patch(b.Context(), "measured", types.ApplyPatchType, fmt.Appendf(nil, "{apiVersion: v1, kind: ConfigMap, metadata: {name: measured}, data: {n: %q}}", strconv.Itoa(n)), metav1.PatchOptions{FieldManager: "test"}); err != nil {
				b.Fatal(err)
			}
			<-bare.ResultChan()
			seen := time.Now()
			events = append(events, stamps(before + 1)[before].Sub(seen))
			begin := time.Now()
			if err := exec.CommandContext(b.Context(), path).Run(); err != nil {
				b.Fatal(err)
			}
			starts = append(starts, stamps(before + 2)[before+1].Sub(begin))
		}
		b.ReportMetric(median(events), "event-ms")
		b.ReportMetric(median(starts), "start-ms")
	}
}

func stamps(b *testing.B, lines []string) []time.Time {
	b.Helper()
	all := make([]time.Time, len(lines))
	for i, line := range lines {
		micros, err := strconv.ParseInt(strings.ReplaceAll(line, ".", ""), 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		all[i] = time.UnixMicro(micros)
	}
	return all
}

// median is in milliseconds.
func median(all []time.Duration) float64 {
	slices.Sort(all)
	return float64(all[len(all)/2].Microseconds()) / 1000
}
