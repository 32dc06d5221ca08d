package ledger_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/fleet/ledger"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/testgrid/controlplane"
)

// TestNumbersAreUsedOnce lets two hubs take numbers at once, and a command meanwhile.
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
	t.Logf("40 numbers of two hubs are in %s", stored.Data["oslo"])

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
