package batch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/klog/v2"

	"github.com/sealift/sealift/kube"
)

// follow watches the Job until it has ended, and notes how its pieces end. The Job's status says which indexes are done, so its pods
// are not looked at.
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
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return jobs.List(ctx, only(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return jobs.Watch(ctx, only(o))
		},
	}
	explaining, stop := context.WithCancel(ctx)
	defer stop()
	go w.explain(explaining)
	quiet := klog.NewContext(ctx, klog.Logger{}) // a watch that breaks is repaired, and needs no line
	// no event tells of a Job that was removed before the watch began
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
		return w.look(ctx, now)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("follow %s: %w", r.job, err)
	}
	return nil
}

// watcher follows one Job.
type watcher struct {
	*run

	uid    types.UID // of the Job
	pieces plan
	seen   []bool // whether the end of an index is noted
}

// look notes what has ended since the last look, and says whether the Job has ended.
func (w *watcher) look(ctx context.Context, job *batchv1.Job) (bool, error) {
	done, err := w.fresh(job.Status.CompletedIndexes)
	if err != nil {
		return false, err
	}
	outcomes, err := w.files.read(ctx, done)
	if err != nil {
		return false, err
	}
	for _, d := range done {
		o, ok := outcomes[d]
		if !ok {
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

// fresh returns the digests of the pieces whose indexes are in a list, and were not before.
func (w *watcher) fresh(list string) (digests []string, err error) {
	err = indexes(list, len(w.pieces), func(i int) {
		if !w.seen[i] {
			w.seen[i] = true
			digests = append(digests, w.pieces[i].digest)
		}
	})
	return digests, err
}

// failed notes why the other pieces of a Job that has ended did not succeed.
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
			f.Failure = why
			if reason := reasons[i]; reason != "" {
				f.Failure = "its pod: " + reason
			}
		}
		w.end(p.digest, Outcome{Failure: f.Failure})
	}
	return nil
}

// deleted takes over what a Job has done that somebody has removed: another coordinator that has finished, or a person.
func (w *watcher) deleted(ctx context.Context) error {
	if err := w.earlier(ctx); err != nil {
		return err
	}
	if left := len(w.missing()); left > 0 {
		return fmt.Errorf("somebody has removed the Job before %d of its pieces were done; run the same command again to go on", left)
	}
	return nil
}

// reasons lists pods of the Job and says of each index why its pod failed or does not run. 0 means all pods.
func (w *watcher) reasons(ctx context.Context, most int64) map[int]string {
	reasons := map[int]string{}
	pods, err := w.cluster.Objects(ctx, kube.Ref{Version: "v1", Kind: "Pod", Namespace: w.Namespace})
	if err != nil {
		return reasons
	}
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + w.job.Name, Limit: most})
	if err != nil {
		return reasons
	}
	for _, object := range list.Items {
		var pod corev1.Pod
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &pod) != nil {
			continue
		}
		index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
		if reason := podReason(&pod); err == nil && reason != "" {
			reasons[index] = reason
		}
	}
	return reasons
}

const (
	// explainEvery is how often a log line says why nothing runs.
	explainEvery = time.Minute
	explainPods  = 20
)

// explain logs why pods do not run, until ctx ends. It asks one small question in a minute.
func (w *watcher) explain(ctx context.Context) {
	ticker := time.NewTicker(explainEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
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
