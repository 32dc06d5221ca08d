package batch_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/batch"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/store"
)

// TestForeignJobStays uses a foreign Job and Secret with the name of a batch.
func TestForeignJobStays(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir(), 1, 2)
	o := s.options()
	o.Files = map[string][]byte{"a": []byte("b")}
	var name string
	var template corev1.PodTemplateSpec
	o.Started = func(job kube.Ref, _ int) { name, template = job.Name, s.theJob().Spec.Template }
	s.run(numbers(2), o)
	template.Labels = nil
	jobs := s.client.BatchV1().Jobs(s.namespace)
	foreign, err := jobs.Create(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Suspend: new(true), Template: template}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := batch.Run(t.Context(), s.cluster(), s.store, numbers(2), o); err != nil {
		t.Error(err)
	}
	o.Current = func(json.RawMessage) bool { return false }
	if _, err := batch.Run(t.Context(), s.cluster(), s.store, numbers(2), o); err == nil || !strings.Contains(err.Error(), "is not a Job of this batch") {
		t.Errorf("got %v", err)
	}
	if job, err := jobs.Get(t.Context(), name, metav1.GetOptions{}); err != nil || job.UID != foreign.UID || job.DeletionTimestamp != nil {
		t.Fatalf("the Job is %+v: %v", job.ObjectMeta, err)
	}
	s.removes(foreign)
	secrets := s.client.CoreV1().Secrets(s.namespace)
	for { // the first run's is removed with its Job
		if _, err = secrets.Get(t.Context(), name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"mine": nil}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := batch.Run(t.Context(), s.cluster(), s.store, numbers(2), o); err == nil || !strings.Contains(err.Error(), "it exists and belongs to another batch") {
		t.Errorf("got %v", err)
	}
	if secret, err := secrets.Get(t.Context(), name, metav1.GetOptions{}); err != nil || len(secret.Data) != 1 || secret.DeletionTimestamp != nil {
		t.Errorf("the Secret is %+v: %v", secret, err)
	}
	s.leavesNothing()
}

// TestFailedCoordinatorLeavesForeignJob uses two coordinators with the same inputs. The second one fails.
func TestFailedCoordinatorLeavesForeignJob(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir(), 1, 2)
	release := make(chan struct{})
	s.do = func(_ context.Context, input json.RawMessage, _ int) (any, error) {
		<-release
		return square(input)
	}
	o := s.options()
	started := make(chan struct{})
	o.Started = func(kube.Ref, int) { close(started) }
	first := make(chan error, 1)
	go func() {
		_, err := batch.Run(t.Context(), s.cluster(), s.store, numbers(2), o)
		first <- err
	}()
	<-started
	second := s.options()
	second.Queue = "absent"
	if _, err := batch.Run(t.Context(), s.cluster(), s.store, numbers(2), second); err == nil {
		t.Error("there is a queue")
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if tries, _ := s.ran(); tries != 2 {
		t.Errorf("%d tries", tries)
	}
}

// TestJobIsFoundAfterLostResponse loses the answer to the request that makes the Job. The coordinator tries again, or it is
// interrupted.
func TestJobIsFoundAfterLostResponse(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir(), 1, 2)
	lossy := func(lost func()) *kube.Cluster {
		var done atomic.Bool
		behind := controlplane.Through(t, s.config, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/jobs") && done.CompareAndSwap(false, true) {
				pass.ServeHTTP(discard{http.Header{}}, r)
				lost()
				panic(http.ErrAbortHandler)
			}
			pass.ServeHTTP(w, r)
		})
		c, err := kube.Connect(behind, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	outcomes, err := batch.Run(t.Context(), lossy(func() {}), s.store, numbers(2), s.options())
	if err != nil || string(outcomes[1].Output) != "1" {
		t.Errorf("%+v, %v", outcomes, err)
	}
	s.leavesNothing()
	if tries, _ := s.ran(); tries != 2 {
		t.Errorf("%d tries", tries)
	}
	ctx, interrupt := context.WithCancelCause(t.Context())
	stop := errors.New("interrupted")
	if _, err := batch.Run(ctx, lossy(func() { interrupt(stop) }), s.store, numbers(3), s.options()); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	s.leavesNothing()
}

// discard is a response that nobody reads.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// listed reports each listing of the results in a store.
type listed struct {
	store.Store

	results func()
}

func (l listed) List(ctx context.Context, prefix string) ([]store.Info, error) {
	list, err := l.Store.List(ctx, prefix)
	if prefix == "batch/results/" {
		l.results()
	}
	return list, err
}

// TestCoordinatorWaitsForPodsOfRemovedJob removes a Job whose pods finish their work while they end. They do so late: after results
// were already read, or after a while.
func TestCoordinatorWaitsForPodsOfRemovedJob(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir(), 1, 2)
	looks := make(chan struct{}, 100)
	s.do = func(ctx context.Context, input json.RawMessage, _ int) (any, error) {
		<-ctx.Done()
		select {
		case <-looks:
		case <-time.After(2 * time.Second):
		}
		return square(input)
	}
	o := s.options()
	o.Current = func(json.RawMessage) bool { return false } // results of earlier runs do not count, but those of this one do
	o.Started = func(kube.Ref, int) {
		for s.kubelet.Seen().Running < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		for len(looks) > 0 {
			<-looks
		}
		go s.removes(s.theJob())
	}
	outcomes, err := batch.Run(t.Context(), s.cluster(), listed{s.store, func() { looks <- struct{}{} }}, numbers(2), o)
	if err != nil {
		t.Fatal(err)
	}
	for i, outcome := range outcomes {
		if len(outcome.Output) != 1 || outcome.Earlier {
			t.Errorf("piece %d: %+v", i, outcome)
		}
	}
}

// TestCoordinatorWithoutWatchRightEnds has no right to list Jobs.
func TestCoordinatorWithoutWatchRightEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir(), 1, 2)
	behind := controlplane.Through(t, s.config, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/jobs") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"may not list jobs"}`))
			return
		}
		pass.ServeHTTP(w, r)
	})
	cluster, err := kube.Connect(behind, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s.do = func(ctx context.Context, _ json.RawMessage, _ int) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if _, err := batch.Run(ctx, cluster, s.store, numbers(2), s.options()); err == nil || !strings.Contains(err.Error(), "may not list jobs") {
		t.Errorf("got %v", err)
	}
	s.leavesNothing()
}
