package cluster

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/poll"
)

// part is a program of a control plane, and the port on which it listens on its host.
type part struct{ name, port string }

// controlPlaneParts are in the order in which they start.
func controlPlaneParts() []part {
	return []part{{"the kubelet", "10248"}, {"etcd", "2379"}, {"the API server", APIPort}, {"the controller manager", "10257"}, {"the scheduler", "10259"}}
}

// startPause is the time between two looks at a control plane that starts.
const startPause = 5 * time.Second

// runNoted runs kubeadm, which says nothing while a control plane starts, and notes which parts of it do not listen yet.
func (k Kubeadm) runNoted(ctx context.Context, args ...string) error {
	looks, stop := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		poll.Repeat(looks, func(ctx context.Context) time.Duration {
			if written, err := exists(kubeadm.APIServerManifest); err == nil && written {
				lifecycle.Note(ctx, startNote(ctx, controlPlaneParts()))
			}
			return startPause
		})
	})
	defer looking.Wait()
	defer stop()
	return run(ctx, k.Output, "kubeadm", args...)
}

// startNote describes a control plane that starts.
func startNote(ctx context.Context, parts []part) string {
	var missing []string
	for _, p := range parts {
		if !listens(ctx, p.port) {
			missing = append(missing, p.name)
		}
	}
	switch {
	case len(missing) == 0:
		return "all of the control plane listens; waiting until it is healthy"
	case len(missing) == len(parts):
		return "waiting for " + missing[0]
	}
	return "the control plane starts; waiting for " + strings.Join(missing, ", ")
}

// listens reports whether a program of this host accepts connections on a port of loopback.
func listens(ctx context.Context, port string) bool {
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(loopback, port))
		if err == nil {
			_ = conn.Close()
			return true
		}
	}
	return false
}
