package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/agent"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// cluster has a Node, and an agent for it whose work is recorded.
type cluster struct {
	t      *testing.T
	client kubernetes.Interface
	root   string // of the node
	pki    string // of the control plane that host-1 is
	ca     identity.Authority
	number int64
	mu     sync.Mutex
	worked []intent.Intent
	work   func(context.Context, intent.Intent) error
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	client, err := kubernetes.NewForConfig(controlplane.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "host-1"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	folder := fixture.CA(t)
	ca, err := identity.ReadAuthority(folder)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.Mkdir(node.StateDir(root), 0o700); err != nil {
		t.Fatal(err)
	}
	return &cluster{t: t, client: client, root: root, pki: folder, ca: ca, work: func(context.Context, intent.Intent) error { return nil }}
}

// agent starts the agent and returns a function that stops it.
func (c *cluster) agent() (stop func()) {
	c.t.Helper()
	a := &agent.Agent{Root: c.root, PKI: c.pki, Node: "host-1", Client: c.client, Version: "test", Log: slog.New(slog.DiscardHandler)}
	a.Work = func(ctx context.Context, in intent.Intent, step func(string)) (string, error) {
		c.mu.Lock()
		c.worked = append(c.worked, in)
		work := c.work
		c.mu.Unlock()
		step("a/files")
		return "/var/log/sealift/upgrade.log", work(ctx, in)
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
	}
}

func (c *cluster) annotate(text string) {
	c.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{intent.Annotation: text}}})
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.client.CoreV1().Nodes().Patch(c.t.Context(), "host-1", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// report waits for a report of a kind.
func (c *cluster) report(want func(intent.Report) bool) intent.Report {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for {
		n, err := c.client.CoreV1().Nodes().Get(ctx, "host-1", metav1.GetOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		r, err := intent.ParseReport(n.Annotations[intent.ReportAnnotation])
		if err != nil {
			c.t.Fatal(err)
		}
		if want(r) {
			return r
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("the last report is %+v", r)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// sign completes an intent for host-1, and signs it as a control plane.
func (c *cluster) sign(in *intent.Intent) (text string) {
	c.t.Helper()
	c.number++
	in.Node, in.Role, in.Number, in.Until = "host-1", intent.ControlPlane, c.number, time.Now().Add(time.Hour).UTC()
	return c.signed(c.ca, *in)
}

func (c *cluster) signed(ca identity.Authority, in intent.Intent) (text string) {
	c.t.Helper()
	text, err := in.Sign(ca, "host-0")
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

func ask(operation intent.Operation, attempt int) intent.Intent {
	return intent.Intent{Upgrade: "u", Operation: operation, Attempt: attempt, Index: strings.Repeat("a", 64), Sealift: strings.Repeat("b", 64), Server: "10.0.0.1:6445"}
}

func TestAgentRunsEachRequestOnce(t *testing.T) {
	c := newCluster(t)
	stop := c.agent()
	first := ask(intent.Prepare, 1)
	c.annotate(c.sign(&first))
	if r := c.report(func(r intent.Report) bool { return r.Answers(first) && r.State != intent.Working }); r.State != intent.Done || r.Log == "" {
		t.Errorf("%+v", r)
	}
	stop()
	stop = c.agent() // a host that was restarted
	defer func() { stop() }()
	c.work = func(context.Context, intent.Intent) error { return errors.New("the disk is full") }
	second := ask(intent.Upgrade, 1)
	c.annotate(c.sign(&second))
	if r := c.report(func(r intent.Report) bool { return r.Answers(second) && r.State != intent.Working }); r.State != intent.Failed || r.Error != "the disk is full" {
		t.Errorf("%+v", r)
	}
	c.mu.Lock()
	c.work = func(context.Context, intent.Intent) error { return nil }
	c.mu.Unlock()
	again := ask(intent.Upgrade, 2)
	c.annotate(c.sign(&again))
	c.report(func(r intent.Report) bool { return r.Answers(again) && r.State == intent.Done })
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.worked) != 3 {
		t.Errorf("the agent worked %d times, for three intents: %+v", len(c.worked), c.worked)
	}
}

func TestKilledAgentResumes(t *testing.T) {
	c := newCluster(t)
	began := make(chan struct{})
	c.work = func(ctx context.Context, _ intent.Intent) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	}
	stop := c.agent()
	in := ask(intent.Kubelet, 1)
	c.annotate(c.sign(&in))
	select {
	case <-began:
	case <-time.After(time.Minute):
		t.Fatal("the agent did not begin")
	}
	stop()
	if r := c.report(func(intent.Report) bool { return true }); r.State != intent.Working {
		t.Errorf("an agent that was ended reports %+v", r)
	}
	c.work = func(context.Context, intent.Intent) error { return nil }
	defer c.agent()()
	c.report(func(r intent.Report) bool { return r.Answers(in) && r.State == intent.Done })
}

func TestAgentSurvivesUnreadableRequest(t *testing.T) {
	c := newCluster(t)
	defer c.agent()()
	unknown := ask("format-the-disk", 1)
	for _, text := range []string{"{", c.sign(&unknown), strings.Repeat("x", 100<<10)} {
		c.annotate(text)
	}
	in := ask(intent.Prepare, 1)
	c.annotate(c.sign(&in))
	c.report(func(r intent.Report) bool { return r.Answers(in) && r.State == intent.Done })
	if len(c.worked) != 1 {
		t.Errorf("the agent worked for %+v", c.worked)
	}
}
