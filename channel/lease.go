package channel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"

	"github.com/sealift/sealift/kube"
)

// Two runs at once would leave the objects of one and the record of the other: a Lease lets one at a time.
const (
	leaseName = "sealift-channel"
	// leaseDuration is how long a holder that says nothing is believed to live.
	leaseDuration = 15 * time.Second
	leaseRenewal  = 4 * time.Second
	leasePoll     = 500 * time.Millisecond
	// leasePatience bounds the wait for another run.
	leasePatience = 30 * time.Minute
)

// errLockLost ends a run whose Lease somebody else took: it was silent for too long.
var errLockLost = errors.New("another run has taken over the cluster's lease " + leaseName + "; run the command again")

// heldLock is the Lease while it is ours.
type heldLock struct {
	ctx    context.Context // ends when the Lease is lost
	cancel context.CancelCauseFunc
	client dynamic.ResourceInterface
	log    interface {
		WarnContext(ctx context.Context, msg string, args ...any)
	}

	mu    sync.Mutex // guards lease between renewals and release
	lease *unstructured.Unstructured
	done  chan struct{}
}

// lock waits until nobody else applies channels to the cluster, and then keeps others out until release. A holder is
// taken for dead when its Lease does not move for its duration by the clock of who waits, or at once when it was a process
// of this machine that is no more.
// tell, which may be nil, is told when there is somebody to wait for.
func (c *Cluster) lock(ctx context.Context, tell func(string)) (*heldLock, error) {
	waiting, cancel := context.WithTimeout(ctx, leasePatience)
	defer cancel()
	h := &heldLock{client: c.full.Resource(leaseResource).Namespace(DefaultNamespace), log: c.log, done: make(chan struct{})}
	var seen string
	var since time.Time
	for {
		var lease *unstructured.Unstructured
		err := c.insist(waiting, kube.Ref{Kind: "Lease", Namespace: DefaultNamespace, Name: leaseName}, func(ctx context.Context) (err error) {
			lease, err = h.client.Get(ctx, leaseName, metav1.GetOptions{})
			return err
		})
		switch {
		case apierrors.IsNotFound(err):
			lease = nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, fmt.Errorf("look at the lease %s: %w", leaseName, err)
		}
		if version := versionOf(lease); version != seen {
			if holder := holderOf(lease); holder != "" && seen == "" && !gone(holder) && tell != nil {
				tell(fmt.Sprintf("another run applies channels to this cluster: waiting for it to end (its lease %s in %s names %s)", leaseName, DefaultNamespace, holder))
			}
			seen, since = version, time.Now()
		}
		holder := holderOf(lease)
		if holder == "" || gone(holder) || time.Since(since) > leaseDuration {
			if h.lease, err = h.take(waiting, lease); err == nil {
				break
			}
			if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
				return nil, fmt.Errorf("take the lease %s: %w", leaseName, err)
			}
		}
		timer := time.NewTimer(leasePoll)
		select {
		case <-timer.C:
		case <-waiting.Done():
			timer.Stop()
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("%s has applied channels to this cluster for %s: look what it does, or delete the lease %s in %s", holder, leasePatience, leaseName, DefaultNamespace)
		}
	}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	go h.renew()
	return h, nil
}

// take writes ourselves into the Lease; of several who try, the server lets one.
func (h *heldLock) take(ctx context.Context, lease *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	now := time.Now().UTC().Format(metav1.RFC3339Micro)
	spec := map[string]any{
		"holderIdentity": self(), "leaseDurationSeconds": int64(leaseDuration / time.Second), "acquireTime": now, "renewTime": now,
	}
	if lease == nil {
		lease = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": map[string]any{"name": leaseName, "namespace": DefaultNamespace}, "spec": spec,
		}}
		return h.client.Create(ctx, lease, metav1.CreateOptions{FieldManager: "sealift"})
	}
	lease = lease.DeepCopy()
	lease.Object["spec"] = spec
	return h.client.Update(ctx, lease, metav1.UpdateOptions{FieldManager: "sealift"})
}

// renew shows that we live, until release. Whoever else has taken the Lease by then ends our run.
func (h *heldLock) renew() {
	defer close(h.done)
	ticker := time.NewTicker(leaseRenewal)
	defer ticker.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-ticker.C:
		}
		h.mu.Lock()
		lease := h.lease.DeepCopy()
		_ = unstructured.SetNestedField(lease.Object, time.Now().UTC().Format(metav1.RFC3339Micro), "spec", "renewTime")
		renewed, err := h.client.Update(h.ctx, lease, metav1.UpdateOptions{FieldManager: "sealift"})
		if err == nil {
			h.lease = renewed
		}
		h.mu.Unlock()
		switch {
		case err == nil || h.ctx.Err() != nil:
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			h.cancel(errLockLost)
		default:
			h.log.WarnContext(h.ctx, "the lease was not renewed", "error", err)
		}
	}
}

// release lets others in. What it cannot tell the server, time does.
func (h *heldLock) release() {
	lost := errors.Is(context.Cause(h.ctx), errLockLost)
	h.cancel(nil)
	<-h.done
	if lost {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), requestTimeout)
	defer cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	lease := h.lease.DeepCopy()
	_ = unstructured.SetNestedField(lease.Object, "", "spec", "holderIdentity")
	if _, err := h.client.Update(ctx, lease, metav1.UpdateOptions{FieldManager: "sealift"}); err != nil {
		h.log.WarnContext(ctx, "the lease was not given back; it ends by itself", "after", leaseDuration, "error", err)
	}
}

func versionOf(lease *unstructured.Unstructured) string {
	if lease == nil {
		return ""
	}
	return lease.GetResourceVersion()
}

func holderOf(lease *unstructured.Unstructured) string {
	if lease == nil {
		return ""
	}
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	return holder
}

// self names this process: host, the boot and the process namespace that its number counts in, the number and the start,
// and a word that is like no other.
func self() string {
	host, _ := os.Hostname()
	return strings.Join([]string{host, processSpace(), strconv.Itoa(os.Getpid()), startOf(os.Getpid()), rand.String(8)}, "_")
}

// gone says whether a holder was a process that this machine has seen the end of.
func gone(holder string) bool {
	parts := strings.Split(holder, "_")
	if len(parts) != 5 || processSpace() == "" || parts[1] != processSpace() {
		return false
	}
	pid, err := strconv.Atoi(parts[2])
	return err == nil && startOf(pid) != parts[3]
}

// processSpace tells where numbers of processes mean the same; empty where the kernel does not say.
func processSpace() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "." + strings.Trim(strings.TrimPrefix(space, "pid:"), "[]")
}

// startOf is when a process started, in ticks since boot; empty when there is none of the number.
func startOf(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	// The name in parentheses may hold blanks; the start is the 22nd field, the 20th after it.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}
