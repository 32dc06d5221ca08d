package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/klog/v2"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

// follow watches the Job until it ends, and records how its pieces end. The Job's status lists the finished indexes, so its pods
// are not read.
func (r *run) follow(ctx context.Context, job *batchv1.Job, pieces plan) error {
	w := &watcher{run: r, uid: job.UID, pieces: pieces, seen: make([]bool, len(pieces))}
	jobs, err := r.cluster.Objects(ctx, r.job)
	if err != nil {
		return err
	}
	only := func(o metav1.ListOptions) metav1.ListOptions {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", r.job.Name).String()
		return o
	}
	following, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	away := absence{end: stop}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := jobs.List(ctx, only(o))
			return list, away.note(err)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			events, err := jobs.Watch(ctx, only(o))
			return events, away.note(err)
		},
	}
	go w.explain(following)
	quiet := klog.NewContext(following, klog.Logger{}) // a watch that breaks is repaired, and needs no line
	// there is no event for a Job that was removed before the watch began
	gone := func(found cache.Store) (bool, error) {
		for _, one := range found.List() {
			if object, ok := one.(*unstructured.Unstructured); ok && object.GetUID() == job.UID {
				return false, nil
			}
		}
		return true, w.deleted(ctx)
	}
	_, err = watchtools.UntilWithSync(quiet, lw, &unstructured.Unstructured{}, gone, func(e watch.Event) (bool, error) {
		object, ok := e.Object.(*unstructured.Unstructured)
		switch {
		case !ok || object.GetUID() != job.UID:
			return false, nil
		case e.Type == watch.Deleted:
			return true, w.deleted(ctx)
		}
		now, err := toJob(object)
		if err != nil {
			return false, err
		}
		return w.check(ctx, now)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if cause := context.Cause(following); cause != nil {
		err = cause
	}
	if err != nil {
		return fmt.Errorf("follow %s: %w", r.job, err)
	}
	return nil
}

const (
	// awayTime is how long the API server may be away while a Job is followed.
	awayTime = 15 * time.Minute
	// refusedTime is how long it may refuse to show the Job. A server that has just started does not know its roles yet.
	refusedTime = 10 * time.Second
)

// absence ends the wait for a Job that no longer appears. The informer itself retries forever.
type absence struct {
	end context.CancelCauseFunc

	mu    sync.Mutex
	since time.Time // of the first of the last failures in a row; zero if the last request succeeded
}

// note records the outcome of a request and returns it.
func (o *absence) note(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) { // the informer begins with a new list
		o.since = time.Time{}
		return err
	}
	if o.since.IsZero() {
		o.since = time.Now()
	}
	most := awayTime
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		most = refusedTime
	}
	if away := time.Since(o.since); away >= most {
		o.end(fmt.Errorf("for %s: %w", away.Round(time.Second), err))
	}
	return err
}

// watcher follows one Job.
type watcher struct {
	*run

	uid    types.UID // of the Job
	pieces plan
	seen   []bool // whether the end of an index is noted

	waits atomic.Bool // for its queue
}

// check records what has ended since the last check, and reports whether the Job has ended.
func (w *watcher) check(ctx context.Context, job *batchv1.Job) (bool, error) {
	w.waits.Store(job.Spec.Suspend != nil && *job.Spec.Suspend)
	done, err := w.fresh(job.Status.CompletedIndexes)
	if err != nil {
		return false, err
	}
	results, err := w.files.read(ctx, done)
	if err != nil {
		return false, err
	}
	for _, d := range done {
		o := Outcome{Output: results[d].Output}
		if o.Output == nil {
			o.Failure = "its pod has ended without an error, but its result is not in the store"
		}
		w.end(d, o)
	}
	var why string
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			why = string(c.Type)
			if c.Type == batchv1.JobFailed {
				why = strings.TrimSpace(c.Reason + ": " + c.Message)
			}
		}
	}
	if why == "" {
		return false, nil
	}
	return true, w.failed(ctx, why)
}

// fresh returns the digests of the pieces whose indexes are new in a list.
func (w *watcher) fresh(list string) (digests []string, err error) {
	err = indexes(list, len(w.pieces), func(i int) {
		if !w.seen[i] {
			w.seen[i] = true
			digests = append(digests, w.pieces[i].digest)
		}
	})
	return digests, err
}

// failed records the outcome of the other pieces of an ended Job. A piece whose pod was ended with the Job may have stored its
// result.
func (w *watcher) failed(ctx context.Context, why string) error {
	var reasons map[int]string
	for i, p := range w.pieces {
		if w.seen[i] {
			continue
		}
		f, err := w.files.one(ctx, failureKey(p.digest))
		if err != nil {
			return err
		}
		if f.Failure == "" || f.Job != string(w.uid) { // a failure of an earlier Job says nothing about this one
			if reasons == nil {
				reasons = w.reasons(ctx, 0)
			}
			stored, err := w.files.one(ctx, resultKey(p.digest))
			if err != nil {
				return err
			}
			f = result{Failure: why}
			if reason := reasons[i]; reason != "" {
				f.Failure = "its pod: " + reason
			} else if stored.Output != nil && stored.Job == string(w.uid) {
				f = stored
			}
		}
		w.end(p.digest, Outcome{Output: f.Output, Failure: f.Failure})
	}
	return nil
}

// deleted records what a Job has done that another coordinator or a person removed. Its pods outlive it and still store results,
// so they end first.
func (w *watcher) deleted(ctx context.Context) error {
	if err := w.awaitPods(ctx); err != nil {
		return err
	}
	if err := w.earlier(ctx, w.uid); err != nil {
		return err
	}
	if left := len(w.missing()); left > 0 {
		return fmt.Errorf("the Job was removed before %d of its pieces were done; run the same command again to resume", left)
	}
	return nil
}

const (
	// podsTime is how long the pods of a removed Job may take to end. Pods of a removed Job may keep working for hours.
	podsTime = time.Minute
	// podsPoll is the pause before pods are listed again.
	podsPoll = 500 * time.Millisecond
)

// awaitPods returns when no pod of the Job works any longer, or after podsTime.
func (w *watcher) awaitPods(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, podsTime)
	defer cancel()
	err := poll.Until(waiting, podsPoll, nil, func(ctx context.Context) (bool, error) {
		pods, err := w.pods(ctx, 0)
		return err == nil && !slices.ContainsFunc(pods, func(p corev1.Pod) bool {
			return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
		}), poll.NotYet(err)
	})
	if ctx.Err() == nil {
		return nil // the pods have had their time
	}
	return err
}

// pods lists pods of this Job, but not those of an earlier one with the same name. 0 means all.
func (w *watcher) pods(ctx context.Context, most int64) (pods []corev1.Pod, err error) {
	objects, err := w.cluster.Objects(ctx, kube.Ref{Version: "v1", Kind: "Pod", Namespace: w.Namespace})
	if err != nil {
		return nil, err
	}
	list, err := objects.List(ctx, metav1.ListOptions{LabelSelector: batchv1.ControllerUidLabel + "=" + string(w.uid), Limit: most})
	if err != nil {
		return nil, err
	}
	for _, object := range list.Items {
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &pod); err != nil {
			return nil, fmt.Errorf("the API server sent an unexpected pod: %w", err)
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

// reasons returns for indexes why their pod failed or does not run. 0 reads all pods.
func (w *watcher) reasons(ctx context.Context, most int64) map[int]string {
	reasons := map[int]string{}
	pods, err := w.pods(ctx, most)
	if err != nil {
		return reasons
	}
	for _, pod := range pods {
		index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
		if reason := podReason(&pod); err == nil && reason != "" {
			reasons[index] = reason
		}
	}
	return reasons
}

const (
	// explainEvery is how often a log line explains why nothing runs.
	explainEvery = time.Minute
	explainPods  = 20
)

// explain logs why the Job or its pods do not run, until ctx ends. It asks one small question in a minute.
func (w *watcher) explain(ctx context.Context) {
	ticker := time.NewTicker(explainEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if w.waits.Load() {
			w.Log.WarnContext(ctx, "the queue has not admitted the Job yet", "job", w.job.String(), "queue", w.Queue,
				"see", "kubectl --namespace "+w.Namespace+" describe workloads.kueue.x-k8s.io")
			continue
		}
		said := map[string]bool{}
		for _, reason := range w.reasons(ctx, explainPods) {
			if !said[reason] {
				w.Log.WarnContext(ctx, "a pod does not run", "job", w.job.String(), "reason", reason)
			}
			said[reason] = true
		}
	}
}

// indexes calls each for the numbers in a list such as 0-4,7 that the status of a Job has. All must be below n.
func indexes(list string, n int, each func(int)) error {
	if list == "" {
		return nil
	}
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, lastErr := strconv.Atoi(to)
		if err := errors.Join(err, lastErr); err != nil || first < 0 || last < first || last >= n {
			return fmt.Errorf("the status of the Job lists the indexes %q, and the Job has %d: %w", part, n, errors.Join(err, errStrange))
		}
		for i := first; i <= last; i++ {
			each(i)
		}
	}
	return nil
}

var errStrange = errors.New("not a list of its indexes")
