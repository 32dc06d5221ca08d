package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/internal/poll"
)

// How long a server may take until it is ready, how often it is asked, and how long the first one is asked after an interruption.
const (
	bound       = 3 * time.Minute
	pause       = 200 * time.Millisecond
	interrupted = 10 * time.Second
)

// lookPause is how often sockets are looked at while the first server is replaced. Two changes in this time may arrive in either
// order.
const lookPause = 50 * time.Millisecond

// settle is how long a server continues after another one leads: a client that has just connected to it sends its request and gets
// its response.
const settle = time.Second

// A server is ready after so many consecutive good responses, each on a new connection. More are needed if both servers answer in
// turn, or if a starting server may give the same response: the kernel chooses one of two by chance, and 12 in a row of the same one
// were seen in one of 1,500 waits of 3 s.
const (
	inARow        = 3
	inARowInDoubt = 24
)

// mark is on the connections of a pair's prober. It has none of the bits that kube-proxy, Calico and Cilium use.
const mark = 0x10a1

// pair is the two servers of a port. One of them leads: it gets the new connections. Those of the prober go to the other one.
type pair struct {
	server
	second int                         // process of the second server
	end    func(context.Context) error // stops the second server, without waiting for that
	output io.Writer
	bound  time.Duration

	prober   balancer.Prober
	directed bool // the kernel can select the leading one
	ready    int  // HTTP status of a server that is ready

	inodes  []string // of the sockets, as they were seen last
	sockets []socket // in the order of the kernel
	leads   bool     // the second server does
}

// prepare has the server lead that runs, and asks it for its health: the other one is ready when it answers the same. A server that
// refuses anonymous requests answers 401 or 403. So does one that starts, before it has read the rules of the cluster.
func (p *pair) prepare(ctx context.Context) {
	p.prober, p.directed, p.ready = balancer.NewMarkedProber(mark), true, http.StatusOK
	plain := balancer.NewProber()
	if status, err := plain.Status(ctx, p.address); err == nil && status < http.StatusInternalServerError {
		p.ready = status
	}
	err := p.lead(ctx, p.second != 0)
	if _, marked := p.prober.Status(ctx, p.address); errors.Is(marked, os.ErrPermission) {
		err = errors.Join(err, marked)
	}
	if err != nil {
		fmt.Fprintf(p.output, "new connections go to both API servers, also while one of them starts: %v\n", err)
		p.prober, p.directed = plain, false
		_ = p.lead(ctx, p.second != 0) // only looks who listens
	}
}

// lead lets one of the servers lead, and remembers which of them listen.
func (p *pair) lead(ctx context.Context, second bool) error {
	inodes, err := listening(p.port)
	if err != nil || second == p.leads && slices.Equal(inodes, p.inodes) {
		return err
	}
	sockets, err := owners(inodes)
	if err != nil {
		return err
	}
	sockets = inOrder(p.sockets, sockets)
	if p.directed && len(sockets) > 0 {
		leads, other := p.index(true, sockets), p.index(false, sockets)
		if !second {
			leads, other = other, leads
		}
		if err := p.direct(ctx, leads, other); err != nil {
			return err
		}
	}
	p.inodes, p.sockets, p.leads = inodes, sockets, second
	return nil
}

// index is the index of a server in the kernel's order. One that does not listen yet comes after the other one. Of two first
// servers, the new one counts.
func (p *pair) index(second bool, sockets []socket) int {
	at, started := len(sockets), uint64(0)
	for n, s := range sockets {
		if (s.process == p.second) == second && s.started >= started {
			at, started = n, s.started
		}
	}
	return at
}

func (p *pair) listens(second bool) bool { return p.index(second, p.sockets) < len(p.sockets) }

// ask asks the server that does not lead. Without direction, either of them answers.
func (p *pair) ask(ctx context.Context) error {
	status, err := p.prober.Status(ctx, p.address)
	if err == nil && status != p.ready {
		err = fmt.Errorf("it answers %d %s", status, http.StatusText(status))
	}
	return err
}

// needed means that only the second server answers.
func (p *pair) needed(ctx context.Context) bool {
	return p.listens(true) && (!p.listens(false) || p.ask(ctx) != nil)
}

// wait waits until one of the servers is ready while the other one leads.
func (p *pair) wait(ctx context.Context, second bool, limit time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	want := inARow
	if !p.directed || p.ready != http.StatusOK {
		want = inARowInDoubt
	}
	n := 0
	err := poll.Until(bounded, pause, nil, func(bounded context.Context) (bool, error) {
		err := p.lead(ctx, !second)
		if err == nil && !p.listens(second) {
			err = errors.New("it does not listen")
		}
		if err == nil {
			err = p.ask(bounded)
		}
		if n++; err != nil {
			n = 0
		}
		if second && err != nil && !runs(p.second) {
			return false, fmt.Errorf("it ended; see 'journalctl --unit %s'", units)
		}
		return n == want, poll.NotYet(err)
	})
	ended, ok := errors.AsType[*poll.EndedError](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case ok:
		return fmt.Errorf("the API server at %s is not ready after %s: %w; see /var/log/pods and 'journalctl --unit %s'", p.address, limit, cmp.Or(ended.Last, err), units)
	}
	return err
}

// while has the second server lead while do replaces the first one, and then the first one. The second server ends only when the
// first one is ready. release is called before that, and ends what keepAddresses began.
func (p *pair) while(ctx context.Context, release func(), do func() error) error {
	stop := p.keepLead(ctx)
	_ = poll.Pause(ctx, settle)
	err := do()
	stop()
	limit := p.bound
	if ctx.Err() != nil {
		limit = interrupted
	}
	ctx = context.WithoutCancel(ctx)
	away := p.wait(ctx, false, limit)
	release() // not before: a first server that fails removes its address, and the second one never adds it
	if away != nil {
		return errors.Join(err, fmt.Errorf("%w; the second API server answers in its place for an hour at most: repair the first one, and run the same command again", away))
	}
	return errors.Join(err, p.handOver(ctx))
}

// keepAddresses keeps those of the Service kubernetes until the returned function is called, even after an interruption. An address
// that goes although a policy forbids it is written again.
func (p *pair) keepAddresses(ctx context.Context, client kubernetes.Interface) (stop func()) {
	addresses, err := endpointsOf(ctx, client)
	if err != nil {
		fmt.Fprintln(p.output, err)
		return func() {}
	}
	if err := guard(ctx, client); err != nil {
		fmt.Fprintln(p.output, err)
	}
	ctx = context.WithoutCancel(ctx)
	end := until(ctx, addresses.keep)
	return func() {
		end()
		if err := release(ctx, client); err != nil {
			fmt.Fprintln(p.output, err)
		}
	}
}

// keepLead keeps the second server leading, even when the first one ends and restarts, until the returned function is called.
func (p *pair) keepLead(ctx context.Context) (stop func()) {
	if err := p.lead(ctx, true); err != nil {
		fmt.Fprintf(p.output, "the second API server does not lead yet: %v\n", err)
	}
	return until(ctx, func(ctx context.Context) {
		poll.Repeat(ctx, func(ctx context.Context) time.Duration {
			_ = p.lead(ctx, true) // a socket that goes while it is looked at
			return lookPause
		})
	})
}

// until runs work in the background until the returned function is called, which waits for its end.
func until(ctx context.Context, work func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { work(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// handOver has the first server lead and ends the second one.
func (p *pair) handOver(ctx context.Context) error {
	if err := p.lead(ctx, false); err != nil {
		fmt.Fprintf(p.output, "the first API server does not lead yet: %v\n", err)
	}
	_ = poll.Pause(ctx, settle)
	if err := p.end(ctx); err != nil {
		return err
	}
	closed, cancel := context.WithTimeout(ctx, interrupted)
	defer cancel()
	_ = poll.Until(closed, pause, nil, func(context.Context) (bool, error) { // the first one leads until that one ends
		listens := p.listens(true)
		if listens {
			_ = p.lead(ctx, false)
		}
		return !listens, nil
	})
	return nil
}
