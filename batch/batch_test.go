package batch_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sealift/sealift/batch"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/store"
)

// TestFailedPiecesDoNotStopOthers has pieces that fail once, always, without output, and by losing their node.
func TestFailedPiecesDoNotStopOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir(), 2, 4)
	s.do = func(_ context.Context, input json.RawMessage, try int) (any, error) {
		var in struct{ Number int }
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, err
		}
		if in.Number == 1 && try == 1 || in.Number == 2 {
			return nil, fmt.Errorf("no luck with %d", in.Number)
		}
		return square(input)
	}
	evicted := 0
	s.kubelet.End = func(pod *corev1.Pod) {
		switch index := pod.Annotations["batch.kubernetes.io/job-completion-index"]; {
		case index == "3": // the kernel kills it before it can report anything; its stored output is ignored
			pod.Status.Phase = corev1.PodFailed
			pod.Status.ContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}
		case index == "4" && evicted < 2: // its node is lost more often than a piece may fail
			evicted++
			pod.Status.Phase = corev1.PodFailed
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"})
		}
	}
	o := s.options()
	o.Retries = 1
	var finished []int
	o.Finished = func(place int, _ batch.Outcome) { finished = append(finished, place) }
	outcomes := s.run(append(numbers(6), numbers(1)...), o) // the first twice
	for place, want := range map[int]batch.Outcome{
		0: {Output: json.RawMessage("0")}, 1: {Output: json.RawMessage("1")}, 2: {Failure: "no luck with 2"},
		3: {Failure: "its pod: OOMKilled with exit code 137"}, 4: {Output: json.RawMessage("16")}, 6: {Output: json.RawMessage("0")},
	} {
		if got := outcomes[place]; string(got.Output) != string(want.Output) || got.Failure != want.Failure {
			t.Errorf("piece %d: %s %q, want %s %q", place, got.Output, got.Failure, want.Output, want.Failure)
		}
	}
	if slices.Sort(finished); !slices.Equal(finished, []int{0, 1, 2, 3, 4, 5, 6}) {
		t.Errorf("told of %v", finished)
	}
	if _, again := s.ran(); !slices.Equal(again, []string{`{"number":1}`, `{"number":2}`, `{"number":3}`, `{"number":4}`}) {
		t.Errorf("these ran more than once: %q", again)
	}
	s.kubelet.End, s.do = nil, nil
	before, _ := s.ran()
	o.Current = func(output json.RawMessage) bool { return string(output) != "25" }
	outcomes = s.run(numbers(6), o)
	if after, _ := s.ran(); after-before != 2 || !outcomes[0].Earlier || outcomes[2].Earlier || string(outcomes[2].Output) != "4" || outcomes[5].Earlier {
		t.Errorf("a second run did %d pieces: %+v", after-before, outcomes)
	}
}

// TestBatchStaysWithinItsLimits uses a quota of three pods, files for them, and a parallelism of four.
func TestBatchStaysWithinItsLimits(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir(), 2, 10)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}}}
	if _, err := s.client.CoreV1().ResourceQuotas(s.namespace).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for {
		now, err := s.client.CoreV1().ResourceQuotas(s.namespace).Get(t.Context(), "few", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(now.Status.Hard) > 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	begun := make(chan struct{}, 100)
	release := make(chan struct{})
	s.do = func(_ context.Context, input json.RawMessage, _ int) (any, error) {
		begun <- struct{}{}
		<-release
		return square(input)
	}
	o := s.options()
	o.Parallelism, o.Keep, o.PieceTime, o.Time = 4, 90*time.Second, 5*time.Minute, time.Hour
	o.Files = map[string][]byte{"sealift.yaml": []byte("{}\n")}
	go func() {
		for range 3 {
			<-begun
		}
		job := s.theJob()
		if *job.Spec.Parallelism != 4 || *job.Spec.TTLSecondsAfterFinished != 90 || *job.Spec.ActiveDeadlineSeconds != 3600 || *job.Spec.Template.Spec.ActiveDeadlineSeconds != 300 {
			t.Errorf("the Job is %+v", job.Spec)
		}
		secret, err := s.client.CoreV1().Secrets(s.namespace).Get(t.Context(), job.Name, metav1.GetOptions{})
		if err != nil || string(secret.Data["sealift.yaml"]) != "{}\n" || secret.OwnerReferences[0].UID != job.UID {
			t.Errorf("the files are %+v: %v", secret, err)
		}
		if mount := job.Spec.Template.Spec.Containers[0].VolumeMounts; len(mount) != 1 || mount[0].MountPath != batch.FilesDir {
			t.Errorf("mounts: %+v", mount)
		}
		close(release)
	}()
	for i, outcome := range s.run(numbers(4), o) {
		if string(outcome.Output) != strconv.Itoa(i*i) {
			t.Errorf("piece %d: %+v", i, outcome)
		}
	}
	if most := s.kubelet.Seen().Most; most != 3 {
		t.Errorf("%d pods ran at once", most)
	}
}

// TestCancelledBatchLeavesNoJob interrupts a coordinator, and removes the Job of another.
func TestCancelledBatchLeavesNoJob(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir(), 1, 2)
	s.do = func(ctx context.Context, _ json.RawMessage, _ int) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ctx, interrupt := context.WithCancelCause(t.Context())
	stop := errors.New("interrupted")
	go func() {
		s.theJob()
		interrupt(stop)
	}()
	if _, err := batch.Run(ctx, s.cluster(), s.store, numbers(2), s.options()); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	s.leavesNothing()
	go func() {
		job := s.theJob()
		policy := metav1.DeletePropagationBackground
		if err := s.client.BatchV1().Jobs(s.namespace).Delete(t.Context(), job.Name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Error(err)
		}
	}()
	if _, err := batch.Run(t.Context(), s.cluster(), s.store, numbers(2), s.options()); err == nil || !strings.Contains(err.Error(), "the Job was removed before 2 of its pieces were done") {
		t.Errorf("got %v", err)
	}
}

// TestJobDeletedBeforeWatchIsHandled removes the Job at the moment at which its coordinator begins to watch it.
func TestJobDeletedBeforeWatchIsHandled(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir(), 1, 2)
	s.do = func(ctx context.Context, _ json.RawMessage, _ int) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var removed sync.Once
	behind := controlplane.Through(t, s.config, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/jobs") {
			removed.Do(func() { s.removes(s.theJob()) })
		}
		pass.ServeHTTP(w, r)
	})
	cluster, err := kube.Connect(behind, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := batch.Run(ctx, cluster, s.store, numbers(2), s.options()); err == nil || !strings.Contains(err.Error(), "the Job was removed") {
		t.Errorf("got %v", err)
	}
}

// TestCoordinatorRemovesItsOwnJobOnly has another Job under the name at the moment at which a coordinator removes its own.
func TestCoordinatorRemovesItsOwnJobOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir(), 1, 2)
	jobs := s.client.BatchV1().Jobs(s.namespace)
	var other *batchv1.Job
	behind := controlplane.Through(t, s.config, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/jobs/") && other == nil {
			own := s.theJob()
			s.removes(own)
			made := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: own.Name}, Spec: batchv1.JobSpec{Suspend: new(true), Template: own.Spec.Template}}
			made.Spec.Template.Labels = nil
			var err error
			if other, err = jobs.Create(r.Context(), made, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		}
		pass.ServeHTTP(w, r)
	})
	cluster, err := kube.Connect(behind, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := batch.Run(t.Context(), cluster, s.store, numbers(2), s.options()); err != nil {
		t.Fatal(err)
	}
	if job := s.theJob(); other == nil || job.UID != other.UID {
		t.Errorf("the Job is %s, and %+v was made", job.UID, other)
	}
}

// TestKueueAdmitsBatch plays Kueue, which resumes the Job.
func TestKueueAdmitsBatch(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir(), 1, 2)
	o := s.options()
	o.Queue = "tests"
	refused := func(want string) {
		t.Helper()
		if _, err := batch.Run(t.Context(), s.cluster(), s.store, numbers(2), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	refused("the queue tests needs Kueue")
	objects := dynamic.NewForConfigOrDie(s.config)
	create := func(resource schema.GroupVersionResource, namespace, text string) {
		t.Helper()
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		for {
			_, err := objects.Resource(resource).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{})
			if err == nil {
				return
			}
			if !strings.Contains(err.Error(), "could not find the requested resource") { // a definition takes a moment
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	create(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, "", `{"apiVersion":"apiextensions.k8s.io/v1",
"kind":"CustomResourceDefinition","metadata":{"name":"localqueues.kueue.x-k8s.io","annotations":{"api-approved.kubernetes.io":"unapproved, a test"}},
"spec":{"group":"kueue.x-k8s.io","scope":"Namespaced","names":{"plural":"localqueues","singular":"localqueue","kind":"LocalQueue","listKind":"LocalQueueList"},
"versions":[{"name":"v1beta1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	queue := schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta1", Resource: "localqueues"}
	create(queue, s.namespace, `{"apiVersion":"kueue.x-k8s.io/v1beta1","kind":"LocalQueue","metadata":{"name":"other"}}`)
	refused(`"tests" not found`)
	create(queue, s.namespace, `{"apiVersion":"kueue.x-k8s.io/v1beta1","kind":"LocalQueue","metadata":{"name":"tests"}}`)
	go func() {
		job := s.theJob()
		if job.Labels["kueue.x-k8s.io/queue-name"] != "tests" || !*job.Spec.Suspend {
			t.Errorf("labels %v, suspend %v", job.Labels, job.Spec.Suspend)
		}
		_, err := objects.Resource(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}).Namespace(s.namespace).
			Patch(t.Context(), job.Name, "application/merge-patch+json", []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	}()
	if outcomes := s.run(numbers(2), o); string(outcomes[1].Output) != "1" {
		t.Errorf("%+v", outcomes)
	}
}

func TestPodDoesOnlyWorkOfItsPlan(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	const content = "{}\n"
	right := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	wrong := strings.Repeat("0", len(right))
	for _, plan := range []string{right, wrong} {
		place := filepath.Join(dir, "batch", "plans", plan)
		if err := errors.Join(os.MkdirAll(filepath.Dir(place), 0o755), os.WriteFile(place, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for want, environment := range map[string]map[string]string{
		"this command runs only in pods of an Indexed Job": {},
		"have the digest " + right:                         {"SEALIFT_BATCH_PLAN": wrong, "JOB_COMPLETION_INDEX": "0"},
		"no such file or directory":                        {"SEALIFT_BATCH_PLAN": "absent", "JOB_COMPLETION_INDEX": "0"},
		"but the batch has 1 pieces":                       {"SEALIFT_BATCH_PLAN": right, "JOB_COMPLETION_INDEX": "1"},
	} {
		err := batch.Serve(t.Context(), s, func(name string) string { return environment[name] }, func(context.Context, json.RawMessage) (any, error) {
			t.Error("it did something")
			return nil, nil
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
