package agent_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/installer/agent"
	etcd "github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// leading is a control plane that leads an undo, as other control planes see it.
type leading struct {
	t       *testing.T
	connect func(server string) (*share.Client, error)

	mu        sync.Mutex
	order     *undo.JointUndo // nil after the undo was given up
	asked     int
	connected int
}

func newLeading(t *testing.T) (l *leading, address string) {
	t.Helper()
	folder := fixture.CA(t)
	authority, err := identity.ReadAuthority(folder)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = &leading{t: t}
	l.connect = func(server string) (*share.Client, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.connected++
		return share.NewNodeClient(server, filepath.Join(folder, "ca.crt"), authority.Client("host-1"))
	}
	s := &share.Server{Log: slog.New(slog.DiscardHandler), Undo: l.undo}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- share.Serve(ctx, share.Mixed(listener, authority.Server("host-1", "127.0.0.1")), s.Handler())
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l, listener.Addr().String()
}

func (l *leading) undo(name string) (share.Undo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if l.order == nil {
		return share.Undo{}, fs.ErrNotExist
	}
	if !l.order.Has(name) {
		return share.Undo{}, share.ErrMember
	}
	return share.Undo{Order: l.order.Encode()}, nil
}

func (l *leading) says(o *undo.JointUndo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.order, l.asked = o, 0
}

// until waits generously.
func (l *leading) until(what string, is func() bool) {
	l.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		l.mu.Lock()
		now := is()
		l.mu.Unlock()
		if now {
			return
		}
		if time.Now().After(end) {
			l.t.Fatalf("not after two minutes: %s", what)
		}
	}
}

// TestControlPlaneIsUndoneWithOthers follows an order from the moment at which this control plane is armed. Its agent is killed
// during the undo, and the leading control plane is unreachable from then on.
func TestControlPlaneIsUndoneWithOthers(t *testing.T) {
	c := newCluster(t)
	l, address := newLeading(t)
	store := undo.Store{Root: t.TempDir(), Rootfs: t.TempDir()}
	set, err := store.Keep("fedcba9876543210", "1.35.4", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	o := undo.JointUndo{
		ID: "0123456789abcdef", Upgrade: set.Upgrade, Leader: "host-9", Server: address, Snapshot: strings.Repeat("a", 64), Stage: undo.Prepared,
		Members: []etcd.EtcdMember{{Name: "host-1", Peers: []string{"https://10.0.0.1:2380"}}, {Name: "host-9", Peers: []string{"https://10.0.0.9:2380"}}},
	}
	var reverted []undo.Stage
	putBack := 0
	var revert func(context.Context) error
	run := func() (done chan error, stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		a := &agent.Agent{Root: store.Root, PKI: c.pki, Node: "host-1", Client: c.client, Log: slog.New(slog.DiscardHandler), Connect: l.connect}
		a.Work = func(context.Context, intent.Intent, func(string)) (string, error) {
			return "", nil
		}
		a.Revert = func(ctx context.Context, _ undo.Set, o undo.JointUndo) error {
			l.mu.Lock()
			reverted = append(reverted, o.Stage)
			l.mu.Unlock()
			return revert(ctx)
		}
		a.PutBack = func(undo.Set) error {
			n, err := c.client.CoreV1().Nodes().Get(ctx, "host-1", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if r, err := intent.ParseReport(n.Annotations[intent.ReportAnnotation]); err != nil || r.State != intent.Done || r.Upgrade != o.ID {
				t.Errorf("the state goes back before the others know: %+v, %v", r, err)
			}
			putBack++
			return nil
		}
		done = make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		return done, cancel
	}
	follow := func(armed undo.JointUndo) {
		t.Helper()
		if err := set.WriteOrder(armed); err != nil {
			t.Fatal(err)
		}
	}

	prepare := ask(intent.Prepare, 1) // requested and answered, as in the snapshot
	c.annotate(c.sign(&prepare))
	follow(o)
	done, stop := run()
	c.report(func(r intent.Report) bool { return r.Answers(prepare) && r.State == intent.Done })
	l.until("an undo that was given up is forgotten", func() bool {
		_, ok, err := set.Order()
		return !ok && err == nil
	})
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	other := o
	other.ID = "1111111111111111"
	l.says(&other)
	follow(o)
	done, stop = run()
	l.until("an order in whose place there is another one is forgotten", func() bool {
		_, ok, err := set.Order()
		return !ok && err == nil
	})
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}

	l.says(&o)
	follow(o)
	began := make(chan struct{})
	revert = func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	}
	done, stop = run()
	l.until("it asks again and again", func() bool { return l.asked > 2 })
	if l.mu.Lock(); len(reverted) > 0 || l.connected != 3 {
		t.Errorf("it goes back before the time (%v), or connects each time (%d)", reverted, l.connected)
	}
	l.mu.Unlock()
	going := o.In(undo.Committed)
	l.says(&going)
	<-began
	stop() // killed
	if err := <-done; err != nil {
		t.Error(err)
	}
	if kept, ok, err := set.Order(); !ok || err != nil || kept.Stage != undo.Committed {
		t.Errorf("a killed agent keeps %+v, %t, %v", kept, ok, err)
	}
	l.says(nil)
	revert = func(context.Context) error { return nil }
	done, stop = run()
	defer stop()
	if err := <-done; !errors.Is(err, agent.ErrReplaced) {
		t.Errorf("the agent ended with %v", err)
	}
	if len(reverted) != 2 || reverted[1] != undo.Committed {
		t.Errorf("it went back as %v", reverted)
	}
	if putBack != 1 {
		t.Errorf("Sealift's state went back %d times", putBack)
	}
	if _, err := store.Newest(); !errors.Is(err, undo.ErrNone) {
		t.Errorf("what it went back to is kept: %v", err)
	}
	n, err := c.client.CoreV1().Nodes().Get(t.Context(), "host-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := intent.ParseReport(n.Annotations[intent.ReportAnnotation])
	if err != nil || report.Upgrade != o.ID || report.Operation != intent.Undo || report.State != intent.Done || n.Annotations[intent.Annotation] != "" {
		t.Errorf("it tells %+v, %v, and is asked for %q", report, err, n.Annotations[intent.Annotation])
	}
}
