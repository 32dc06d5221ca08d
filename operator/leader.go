package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/lease"
)

const (
	// leaseDuration is how long a leader may be silent. It stops working after six sevenths of that, and renews three times
	// in between.
	leaseDuration = 35 * time.Second
	// askTime bounds the question to the leader whether it is ready.
	askTime = 3 * time.Second
	// lookTime is the time between two checks for the leader, and the timeout of one.
	lookTime = time.Second
	// askedHeader marks that question. Who is asked so does not ask on.
	askedHeader = "Sealift-Standby"
)

// Replicas means that several operators run. One of them leads: it works. The others stand by.
type Replicas struct {
	// Lease is the name of the Lease that the leader holds, in Namespace.
	Namespace, Lease string
	// Pod is the name of this Pod, and Address its address, without a port.
	Pod, Address string
	// Duration is how long a leader may be silent before another takes over. Default 35 s.
	Duration time.Duration
}

// replica is this operator among the others.
type replica struct {
	Replicas

	cluster *kube.Cluster
	log     *slog.Logger
	port    string // where all of them answer /readyz
	leads   atomic.Bool

	mu      sync.Mutex
	looked  time.Time // at the Lease
	address string    // of the leader then, if it is another one
}

// identity names this operator in the Lease, as upstream does: the standbys find the leader by it.
func (r *replica) identity() string {
	return strings.Join([]string{r.Pod, strings.NewReplacer(".", "-", ":", "-").Replace(r.Address), r.Namespace, "pod"}, ".")
}

// addressOf reads the address out of an identity.
func addressOf(identity string) (string, error) {
	parts := strings.Split(identity, ".")
	if len(parts) >= 4 && parts[len(parts)-1] == "pod" {
		dashed := parts[len(parts)-3]
		for _, separator := range []string{".", ":"} {
			if address := strings.ReplaceAll(dashed, "-", separator); net.ParseIP(address) != nil {
				return address, nil
			}
		}
	}
	return "", fmt.Errorf("the leader %q has no address in its name", identity)
}

// check finds missing options before anything is started.
func (r *Replicas) check() error {
	switch ip := net.ParseIP(r.Address); {
	case r.Namespace == "":
		return errors.New("several replicas need a namespace for their Lease; give --namespace")
	case r.Pod == "":
		return errors.New("several replicas need names; give --pod with the name of the Pod")
	case ip == nil || ip.IsUnspecified():
		return fmt.Errorf("several replicas need the address of the Pod; --listen-address is %q", r.Address)
	}
	return nil
}

// lead waits until this operator is the leader, and then works. It fails when the Lease is lost, which ends the process: no run
// of a hook continues then.
func (r *replica) lead(ctx context.Context, work func(context.Context)) error {
	duration := cmp.Or(r.Duration, leaseDuration)
	err := lease.Run(ctx, r.cluster, lease.Options{
		Namespace: r.Namespace, Name: r.Lease, Identity: r.identity(), Log: r.log,
		Duration: duration, RenewDeadline: duration * 6 / 7, RetryPeriod: duration * 2 / 7,
		Patience: math.MaxInt64, Outage: math.MaxInt64, Tries: 1, // a standby waits for as long as it runs
		Waiting: func(holder string) {
			r.log.InfoContext(ctx, "another operator leads; this one stands by", "leader", holder)
		},
	}, func(ctx context.Context) error {
		r.log.InfoContext(ctx, "this operator leads", "lease", r.Namespace+"/"+r.Lease)
		r.leads.Store(true)
		work(ctx)
		if errors.Is(context.Cause(ctx), lease.ErrLost) {
			return context.Cause(ctx)
		}
		return nil
	})
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil // a standby that was stopped
	}
	return err
}

// askLeader answers /readyz as the leader does.
func (r *replica) askLeader(w http.ResponseWriter, req *http.Request) {
	ctx, cancel := context.WithTimeout(req.Context(), askTime)
	defer cancel()
	status, text, err := r.ofLeader(ctx, req.Header.Get(askedHeader) != "")
	if err != nil {
		http.Error(w, "this operator stands by, and its leader does not answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

func (r *replica) ofLeader(ctx context.Context, asked bool) (status int, text []byte, err error) {
	holder, err := r.holder(ctx)
	if err != nil {
		return 0, nil, err
	}
	if holder == "" || holder == r.identity() || asked {
		return 0, nil, errors.New("there is no leader now")
	}
	address, err := addressOf(holder)
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(address, r.port)+"/readyz", nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set(askedHeader, r.Pod)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	return resp.StatusCode, text, err
}

// leader is the address of the leading operator, or "" if it is this one or nobody. The Lease is read once in lookTime at most.
func (r *replica) leader(ctx context.Context) string {
	if r.leads.Load() {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.looked) < lookTime {
		return r.address
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	r.looked, r.address = time.Now(), ""
	if holder, err := r.holder(ctx); err == nil && holder != r.identity() {
		r.address, _ = addressOf(holder)
	}
	return r.address
}

// holder reads who leads.
func (r *replica) holder(ctx context.Context) (string, error) {
	leases, err := r.cluster.Objects(ctx, kube.Ref{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease", Namespace: r.Namespace})
	if err != nil {
		return "", err
	}
	live, err := leases.Get(ctx, r.Lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	holder, _, err := unstructured.NestedString(live.Object, "spec", "holderIdentity")
	return holder, err
}
