package ledger_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/fleet/ledger"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
)

// TestNumbersAreUsedOnce lets two hubs and a command take numbers at once.
func TestNumbersAreUsedOnce(t *testing.T) {
	t.Parallel()
	cfg := controlplane.ForTest(t)
	cluster, err := kube.Connect(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	open := func() *ledger.Ledger {
		l, err := ledger.Open(cluster, "fleet")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first, second := open(), open()
	one, err := first.Key(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	two, err := second.Key(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x, _ := one.Public()
	y, _ := two.Public()
	if x.Fingerprint() != y.Fingerprint() {
		t.Error("two hubs have two keys")
	}
	var mu sync.Mutex
	var numbers []int64
	var wait sync.WaitGroup
	for i := range 40 {
		wait.Go(func() {
			l := []*ledger.Ledger{first, second}[i/10%2]
			e, err := l.Next(t.Context(), "oslo", 0, time.Now())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			numbers = append(numbers, e.Sequence)
		})
	}
	wait.Wait()
	slices.Sort(numbers)
	for i, n := range numbers {
		if n != int64(i+1) {
			t.Fatalf("the numbers are %v", numbers)
		}
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := client.CoreV1().ConfigMaps("fleet").Get(t.Context(), "sealift-fleet-sequence", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("40 numbers of two hubs are in %v", stored.Data)

	after, err := first.Next(t.Context(), "oslo", 100, time.Now().Add(-time.Hour))
	if err != nil || after.Sequence != 101 {
		t.Errorf("after number 100 comes %d, %v", after.Sequence, err)
	}
	if before, err := second.Of(t.Context(), "oslo"); err != nil || before != after {
		t.Errorf("%+v is stored as %+v, %v", after, before, err)
	}
	if after.Time.Before(time.Now().Add(-time.Minute)) {
		t.Errorf("the clock went back, and the time of a seal with it, to %s", after.Time)
	}
	if _, err := first.Next(t.Context(), "oslo", 0, time.Now().AddDate(1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if set, err := first.Next(t.Context(), "oslo", 0, time.Now()); err != nil || set.Time.After(time.Now()) || set.Sequence != 103 {
		t.Errorf("the clock was a year ahead and was set, and a seal is still of %s, %v", set.Time, err)
	}
	for _, report := range []struct {
		number int64
		taken  bool
	}{{2, true}, {2, false}, {1, false}, {3, true}} {
		if err := second.Take(t.Context(), "oslo", report.number); (err == nil) != report.taken {
			t.Errorf("report %d: %v", report.number, err)
		}
	}
}

// TestNumbersAreReservedInAdvance has a hub expect that clusters start together. They share one write, even if another hub takes numbers
// at the same time, and no number is used twice or after a greater one.
func TestNumbersAreReservedInAdvance(t *testing.T) {
	cfg := controlplane.ForTest(t)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := kube.Connect(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	hub, err := ledger.Open(cluster, "default")
	if err != nil {
		t.Fatal(err)
	}
	other, err := ledger.Open(cluster, "default")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	next := func(l *ledger.Ledger, name string, floor int64, at time.Time, want int64) {
		t.Helper()
		e, err := l.Next(t.Context(), name, floor, at)
		if err != nil || e.Sequence != want {
			t.Errorf("the next number of %s is %+v, %v, want %d", name, e, err, want)
		}
		if stored, err := other.Of(t.Context(), name); err != nil || stored.Sequence < e.Sequence || stored.Time.Before(e.Time) {
			t.Errorf("%+v of %s is used, and %+v is stored, %v", e, name, stored, err)
		}
	}
	version := func() string {
		t.Helper()
		stored, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "sealift-fleet-sequence", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return stored.ResourceVersion
	}
	next(other, "oslo", 0, now, 1)

	hub.Expect("oslo", "rome", "bonn", "oslo")
	next(hub, "rome", 0, now, 1)
	written := version()
	next(hub, "oslo", 0, now.Add(time.Second), 2)
	next(hub, "bonn", 0, now, 1)
	if version() != written {
		t.Error("numbers that were expected were written again")
	}
	next(other, "oslo", 0, now.Add(time.Minute), 4)
	next(hub, "oslo", 0, now.Add(time.Minute), 3) // stored before the other hub's, with an earlier time
	next(hub, "oslo", 0, now.Add(time.Minute), 5) // the hub does not know yet that the other one wrote

	hub.Expect("oslo", "rome", "bonn")
	next(hub, "bonn", 0, now, 2)
	next(hub, "oslo", 6, now, 7)                  // the cluster has seen number 6
	next(hub, "rome", 0, now.Add(time.Hour), 3)   // number 2 is too old
	next(other, "rome", 0, now.Add(time.Hour), 4) // and is not used again
}

// TestLedgerOfOlderHubIsContinued has numbers in separate fields. They become a list, which an older hub refuses.
func TestLedgerOfOlderHubIsContinued(t *testing.T) {
	cfg := controlplane.ForTest(t)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "sealift-fleet-sequence"}, Data: map[string]string{
		"oslo": `{"sequence":7,"time":"2026-01-02T03:04:05Z"}`, "rome": `{"sequence":3,"time":"2026-01-02T03:04:05Z","report":2}`,
	}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), old, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster, err := kube.Connect(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Open(cluster, "default")
	if err != nil {
		t.Fatal(err)
	}
	if next, err := l.Next(t.Context(), "oslo", 0, time.Now()); err != nil || next.Sequence != 8 {
		t.Errorf("after 7 comes %+v, %v", next, err)
	}
	if rome, err := l.Of(t.Context(), "rome"); err != nil || rome.Sequence != 3 || rome.Report != 2 {
		t.Errorf("rome has %+v, %v", rome, err)
	}
	stored, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "sealift-fleet-sequence", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var older ledger.Entry // how an older hub reads each field
	if err := json.Unmarshal([]byte(stored.Data["_clusters"]), &older); err == nil || len(stored.Data) != 1 {
		t.Errorf("an older hub would begin again with %v", stored.Data)
	}
	stored.Data["_clusters"] = "{"
	if _, err := client.CoreV1().ConfigMaps("default").Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Of(t.Context(), "rome"); err == nil || !strings.Contains(err.Error(), "sealift-fleet-sequence") {
		t.Errorf("a damaged ledger is read: %v", err)
	}
	if _, err := l.Next(t.Context(), "rome", 0, time.Now()); err == nil {
		t.Error("a number is taken from a damaged ledger")
	}
}
