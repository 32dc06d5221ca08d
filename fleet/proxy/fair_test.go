package proxy

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
)

// TestNamespaceLeavesWorker has one namespace whose releases take long, and another one. Each request is worked on once in the end.
func TestNamespaceLeavesWorker(t *testing.T) {
	const workers = 3
	done, answer := make(chan string, 20), make(chan struct{})
	f := newFair(reconcile.Func(func(_ context.Context, q reconcile.Request) (reconcile.Result, error) {
		if q.Namespace == "slow" {
			<-answer
		}
		done <- q.String()
		return reconcile.Result{}, nil
	}), workers-1)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := f.freed().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range []string{"slow/1", "slow/2", "slow/3", "slow/4", "slow/5", "other/1"} {
		namespace, name, _ := strings.Cut(name, "/")
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
		want = append(want, namespace+"/"+name)
	}
	for range workers {
		go func() {
			for {
				q, ended := queue.Get()
				if ended {
					return
				}
				_, _ = f.Reconcile(t.Context(), q)
				queue.Done(q)
			}
		}()
	}
	next := func() string {
		select {
		case name := <-done:
			return name
		case <-time.After(30 * time.Second):
			t.Fatal("nothing is worked on")
			return ""
		}
	}
	got := []string{next()}
	if got[0] != "other/1" {
		t.Errorf("%s was worked on first", got[0])
	}
	close(answer)
	for len(got) < len(want) {
		got = append(got, next())
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("worked on %v", got)
	}
}

// TestRequestWithoutWorkerKeepsItsFailures turns a request away that has failed twice. The controller forgets the failures of what succeeds.
func TestRequestWithoutWorkerKeepsItsFailures(t *testing.T) {
	begun, answer := make(chan struct{}), make(chan struct{})
	f := newFair(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		begun <- struct{}{}
		<-answer
		return reconcile.Result{}, nil
	}), 1)
	limiter := remembers{workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute), f}
	queue := workqueue.NewTypedRateLimitingQueue[reconcile.Request](limiter)
	defer queue.ShutDown()
	if err := f.freed().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	long := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "one", Name: "long"}}
	failing := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "one", Name: "failing"}}
	limiter.When(failing)
	limiter.When(failing)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = f.Reconcile(t.Context(), long)
	}()
	<-begun
	if result, err := f.Reconcile(t.Context(), failing); err != nil || result != (reconcile.Result{}) {
		t.Errorf("got %v, %v", result, err)
	}
	if queue.Forget(failing); limiter.NumRequeues(failing) != 2 {
		t.Errorf("it has %d failures, and found no worker", limiter.NumRequeues(failing))
	}
	close(answer)
	<-ended
	if q, _ := queue.Get(); q != failing {
		t.Errorf("the next one is %v", q)
	}
	if queue.Forget(failing); limiter.NumRequeues(failing) != 0 {
		t.Error("a request that succeeds keeps its failures")
	}
}

// silent is a Provider whose cluster stops answering.
type silent struct {
	answers
	read bool // reads are answered
}

func (s silent) wait(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (s silent) Read(ctx context.Context, _ Target) (chartplan.Installed, error) {
	if s.read {
		return s.has, nil
	}
	return s.has, s.wait(ctx)
}

func (s silent) Run(ctx context.Context, _ Target, _ chartplan.Operation) (chartplan.Installed, error) {
	return s.has, s.wait(ctx)
}

func (s silent) Remove(ctx context.Context, _ Target) error { return s.wait(ctx) }

// TestOperationsEnd has clusters that stop answering.
func TestOperationsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		read    bool
		do      func(*attempt, context.Context) error
		want    time.Duration
		says    string
	}{
		"an installation":       {read: true, do: (*attempt).keep, want: 35 * time.Minute, says: "it was not done after 35m0s"},
		"a short timeout":       {timeout: time.Minute, read: true, do: (*attempt).keep, want: 8 * time.Minute, says: "it was not done after 8m0s"},
		"a long timeout":        {timeout: 8760 * time.Hour, read: true, do: (*attempt).keep, want: 2 * time.Hour, says: "it was not done after 2h0m0s"},
		"a negative timeout":    {timeout: -1 << 63, read: true, do: (*attempt).keep, want: 5 * time.Minute, says: "it was not done after 5m0s"},
		"a removal":             {read: true, do: gone, want: 35 * time.Minute, says: "it was not done after 35m0s"},
		"no answer":             {do: (*attempt).keep, want: answerTimeout},
		"no answer, removal":    {do: gone, want: answerTimeout},
		"no answer, look":       {do: (*attempt).look, want: answerTimeout},
		"no answer to a recall": {do: (*attempt).recall, want: answerTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			hrp := &caaph.HelmReleaseProxy{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
			if c.timeout != 0 {
				hrp.Spec.Options.Timeout = &metav1.Duration{Duration: c.timeout}
			}
			s := silent{read: c.read}
			s.has = chartplan.Installed{Status: "failed", Revision: 1, Owner: chartplan.Owner(*hrp)}
			a := &attempt{place: &onCluster{}, provider: s, hrp: hrp, base: hrp.DeepCopyObject().(*caaph.HelmReleaseProxy)}
			began := time.Now()
			err := c.do(a, t.Context())
			if took := time.Since(began); err == nil || took != c.want {
				t.Errorf("%s: ended after %s: %v", name, took, err)
			}
			if got := condition(hrp.Status.Conditions, releaseReady); !strings.Contains(got.Message, c.says) {
				t.Errorf("%s: the condition is %+v", name, got)
			}
		})
	}
}

func gone(a *attempt, ctx context.Context) error { return a.remove(ctx, &chartplan.Cluster{}) }
