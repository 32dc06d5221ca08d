package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube/health"
)

const (
	// DefaultWaitTimeout bounds a Wait whose options name no bound.
	DefaultWaitTimeout = 5 * time.Minute
	// explainTimeout bounds the search for reasons after the wait itself is over.
	explainTimeout = 10 * time.Second
	// explainEvery spares the server: reasons take two more requests for each object.
	explainEvery = 5 * time.Second
)

// defaultPace checks objects up to five times a second. It asks a slow server less often, down to once a second.
var defaultPace = poll.Pace{Shortest: 200 * time.Millisecond, Longest: time.Second, Times: 20}

// WaitOptions configures Wait. The zero value waits for DefaultWaitTimeout.
type WaitOptions struct {
	Timeout time.Duration
	// Interval is the pause between two checks of the unready objects; 0 for one from 0.2 to 1 s that depends on how fast the server is.
	Interval time.Duration
	// Progress is called when the state of an object or its reason changes, never concurrently.
	Progress func(ObjectState)
}

func (o WaitOptions) pace() poll.Pace {
	if o.Interval == 0 {
		return defaultPace
	}
	return poll.Pace{Shortest: o.Interval, Longest: o.Interval}
}

// ObjectState is the last known state of an object that is waited for.
type ObjectState struct {
	Object Ref          `json:"object"`
	State  health.State `json:"state"`
	Reason string       `json:"reason,omitempty"`
	// Waited is for how long the object was waited for.
	Waited time.Duration `json:"waitedNanoseconds"`
}

// String is one line: object, state, for how long and why.
func (s ObjectState) String() string {
	switch s.State {
	case health.Ready:
		return fmt.Sprintf("%s is ready after %s", s.Object, poll.RoundTime(s.Waited))
	case health.Broken:
		return fmt.Sprintf("%s is broken: %s", s.Object, s.Reason)
	}
	return fmt.Sprintf("%s is not ready after %s: %s", s.Object, poll.RoundTime(s.Waited), s.Reason)
}

// WaitError names the objects that did not become ready, and what each waits for.
type WaitError struct {
	Objects []ObjectState
	Total   int // how many were waited for
}

func (e *WaitError) Error() string {
	if len(e.Objects) == 1 {
		return e.Objects[0].String()
	}
	lines := make([]string, len(e.Objects))
	for i, s := range e.Objects {
		lines[i] = s.String()
	}
	return fmt.Sprintf("%d of %d objects are not ready:\n%s", len(e.Objects), e.Total, strings.Join(lines, "\n"))
}

// Wait returns nil when every object is ready as health.Of defines it. It ends with a *WaitError at once when an object is
// broken, and at the timeout. A server that does not answer is waited for like an object.
func (e *Engine) Wait(ctx context.Context, objs []*unstructured.Unstructured, o WaitOptions) error {
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, orDefault(o.Timeout, DefaultWaitTimeout))
	defer cancel()
	waiters := make([]*waiter, len(objs))
	for i, obj := range objs {
		waiters[i] = &waiter{Engine: e, obj: obj, ref: RefOf(obj), reason: "it was not looked at yet"}
	}
	var mu sync.Mutex
	report := func(w *waiter) {
		if o.Progress != nil {
			mu.Lock()
			defer mu.Unlock()
			o.Progress(w.objectState(start))
		}
	}
	pending := waiters
	_ = o.pace().Until(bounded, nil, func(ctx context.Context) (bool, error) { // the waiters hold their reasons
		pending = e.checkAll(ctx, pending, o.Progress != nil, report)
		return len(pending) == 0 || broken(pending), nil
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case len(pending) == 0:
		return nil
	}
	return e.waitError(ctx, pending, len(objs), start)
}

// checkAll checks every waiter and returns the unready ones, in order.
func (e *Engine) checkAll(ctx context.Context, waiters []*waiter, explain bool, report func(*waiter)) []*waiter {
	var group errgroup.Group
	group.SetLimit(concurrency)
	for _, w := range waiters {
		group.Go(func() error {
			state, reason := w.state, w.reason
			err := w.ready(ctx)
			if ctx.Err() != nil {
				w.state, w.reason = state, reason // the timeout ended the read: the state before counts
				return nil                        //nolint:nilerr // it is the bound that ended the look
			}
			if err != nil && explain && time.Since(w.explained) >= explainEvery {
				w.explained = time.Now()
				w.why = e.explain(ctx, w.live())
			}
			if w.state != state || w.fullReason() != w.reported {
				w.reported = w.fullReason()
				report(w)
			}
			return nil
		})
	}
	_ = group.Wait() // the waiters hold their reasons
	var pending []*waiter
	for _, w := range waiters {
		if w.state != health.Ready {
			pending = append(pending, w)
		}
	}
	return pending
}

func broken(waiters []*waiter) bool {
	for _, w := range waiters {
		if w.state == health.Broken {
			return true
		}
	}
	return false
}

// waitError gathers the reasons. The timeout has expired by then, so it has its own short one.
func (e *Engine) waitError(ctx context.Context, pending []*waiter, total int, start time.Time) error {
	waited := time.Now()
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(concurrency)
	for _, w := range pending {
		group.Go(func() error {
			w.why = e.explain(ctx, w.live())
			return nil
		})
	}
	_ = group.Wait()
	out := &WaitError{Total: total}
	for _, w := range pending {
		s := w.objectState(start)
		s.Waited = waited.Sub(start)
		out.Objects = append(out.Objects, s)
	}
	return out
}

// errNotReady is the error of a waiter while its object is not ready; waiter.reason has the reason.
var errNotReady = errors.New("not ready")

// waiter follows one object.
type waiter struct {
	*Engine
	obj *unstructured.Unstructured
	ref Ref

	seen      *unstructured.Unstructured
	state     health.State
	reason    string // from the status of the object
	why       string // the reason behind it
	reported  string
	explained time.Time
}

func (w *waiter) live() *unstructured.Unstructured {
	if w.seen != nil {
		return w.seen
	}
	return w.obj
}

func (w *waiter) fullReason() string {
	if w.why == "" || w.state == health.Ready || strings.Contains(w.reason, w.why) {
		return w.reason
	}
	return w.reason + "; " + w.why
}

func (w *waiter) objectState(start time.Time) ObjectState {
	return ObjectState{Object: w.ref, State: w.state, Reason: w.fullReason(), Waited: time.Since(start)}
}

// ready checks the object once. The error is nil when it is ready, wraps errNotReady when it may become so, and is any other
// when it cannot or when the server did not answer.
func (w *waiter) ready(ctx context.Context) error {
	res, err := w.kinds.find(ctx, w.ref.gvk())
	if err != nil {
		w.state, w.reason = health.Waiting, err.Error()
		return err
	}
	w.ref.Namespace = placeOf(w.obj, res)
	seen, err := w.fullFor(res, w.ref.Namespace).Get(ctx, w.ref.Name, metav1.GetOptions{})
	if err != nil {
		w.state, w.reason = health.Waiting, err.Error()
		if apierrors.IsNotFound(err) {
			w.reason = "it does not exist"
			return fmt.Errorf("%w: %s", errNotReady, w.reason)
		}
		return err
	}
	w.state, w.reason = health.Of(seen)
	if w.state == health.Waiting && w.ref.groupKind() == claimKind && w.bindsLater(ctx, seen) {
		w.state, w.reason = health.Ready, ""
	}
	if w.state == health.Ready {
		w.seen = nil
		return nil
	}
	w.seen = seen
	if w.state == health.Broken {
		return errors.New(w.reason)
	}
	return fmt.Errorf("%w: %s", errNotReady, w.reason)
}

var storageClasses = resource{gvr: schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}}

// bindsLater reports whether a claim waits for a pod to use it, and so is as ready as it can be.
func (w *waiter) bindsLater(ctx context.Context, claim *unstructured.Unstructured) bool {
	name := text(claim.Object, "spec", "storageClassName")
	if name == "" {
		return false
	}
	class, err := w.fullFor(storageClasses, "").Get(ctx, name, metav1.GetOptions{})
	return err == nil && text(class.Object, "volumeBindingMode") == "WaitForFirstConsumer"
}

func fromUnstructured(content map[string]any, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, into)
}
