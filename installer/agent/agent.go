// Package agent is the part of a node in an upgrade that another node of the cluster leads.
//
// It runs as root on each node, in a unit of systemd. It watches the Node object of its own host with the credentials of the
// kubelet, and does what an intent there asks for: see package intent. It can bring the node to the versions of a bundle
// whose digest the intent names, load the images of one, or take the node back to what it keeps from before an upgrade, and
// nothing else. It needs no rights in the cluster besides those that every kubelet has. This package listens nowhere; in the same process,
// service.Peer gives images to other nodes if the Installer has containerd.mirror. What the agent has finished is in the journal of the node,
// so that it may be killed at any moment.
package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/service"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/poll"
)

// How often an answer is repeated that the API did not take, and how long that goes on.
const (
	retryPause = 2 * time.Second
	patience   = 10 * time.Minute
	// resync is how often the agent looks at its Node although nothing has told of a change.
	resync = 5 * time.Minute
)

// ErrReplaced says that the agent ended so that systemd starts it again: with another program, another CA of the cluster, or another way to its API.
var ErrReplaced = errors.New("the agent ends to start again: its program, the cluster's CA or its load balancer was replaced")

// Agent carries out the intents in the annotations of a Node.
type Agent struct {
	Root    string
	Node    string // its name
	Client  kubernetes.Interface
	Version string // of this sealift, for people
	Log     *slog.Logger
	// PKI is the folder with the CA of the cluster, and on a control plane with its key. Empty is that of kubeadm.
	PKI string
	// Work does an operation, and reports each step that begins. Nil means the work of a node.
	Work func(ctx context.Context, in intent.Intent, step func(string)) (log string, err error)
	// Connect reaches the control plane that leads an undo. Revert takes this one back with its set, and PutBack then Sealift's own
	// state. Nil are those of a node.
	Connect func(server string) (*share.Client, error)
	Revert  func(ctx context.Context, set undo.Set, o undo.JointUndo) error
	PutBack func(set undo.Set) error

	last    intent.Report // the last answer: what the watch brings may be older
	refused string        // the annotation that was refused last
	unit    fs.FileInfo   // the file of its unit when it started
	ordered chan struct{} // there is a new order
	orders  sync.Mutex    // of the order on the disk
}

// Run works for this node until ctx ends.
func Run(ctx context.Context, root, version string, log *slog.Logger) error {
	name, err := host.Name()
	if err != nil {
		return err
	}
	client, err := cluster.Client(kubeadm.KubeletKubeconfig)
	if err != nil {
		return err
	}
	a := &Agent{Root: root, Node: name, Client: client, Version: version, Log: log}
	return a.Run(ctx)
}

// Run watches the Node, and follows orders of other control planes, until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	if a.PKI == "" {
		a.PKI = kubeadm.PKI
	}
	if a.Work == nil {
		a.Work = a.work
	}
	if a.Connect == nil {
		a.Connect = a.connect
	}
	if a.Revert == nil {
		a.Revert = a.revertNode
	}
	if a.PutBack == nil {
		a.PutBack = a.putBackState
	}
	a.unit = a.unitFile()
	a.ordered = make(chan struct{}, 1)
	work, stop := context.WithCancel(ctx)
	defer stop()
	var followed error
	var follows sync.WaitGroup
	follows.Go(func() {
		defer stop()
		followed = a.watchOrders(work)
	})
	err := a.watch(work)
	stop()
	follows.Wait()
	switch {
	case followed != nil:
		return followed // the watch ended for that
	case ctx.Err() != nil:
		return nil // the next agent reports what this one could not
	}
	return err
}

// watch carries out the intents of the Node, until ctx ends.
func (a *Agent) watch(ctx context.Context) error {
	changed := make(chan *corev1.Node, 1)
	latest := func(object any) {
		n, ok := object.(*corev1.Node)
		if !ok {
			return
		}
		select { // only the newest counts
		case <-changed:
		default:
		}
		changed <- n
	}
	own := cache.NewFilteredListWatchFromClient(a.Client.CoreV1().RESTClient(), "nodes", metav1.NamespaceAll,
		func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + a.Node })
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: own, ObjectType: &corev1.Node{}, ResyncPeriod: resync,
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: latest, UpdateFunc: func(_, object any) { latest(object) }},
	})
	go informer.RunWithContext(ctx)
	if err := a.introduce(ctx); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case n := <-changed:
			if err := a.handle(ctx, n); err != nil {
				return err
			}
			if ctx.Err() != nil { // whatever else has changed meanwhile
				return nil //nolint:nilerr // the agent is told to end
			}
		}
	}
}

// handle does the operation that the annotations of a Node request, unless it is done.
func (a *Agent) handle(ctx context.Context, n *corev1.Node) error {
	text := n.Annotations[intent.Annotation]
	if text == "" || text == a.refused {
		return nil
	}
	before, err := intent.ParseReport(n.Annotations[intent.ReportAnnotation])
	if err != nil {
		a.Log.Warn("the last report of this node cannot be read", "error", err)
	}
	in, err := a.accept(text)
	if err != nil {
		a.refused = text
		a.Log.Warn("audit: refused", "operation", in.Operation, "number", in.Number, "error", err)
		if in.Upgrade == "" || before.Answers(in) {
			return nil
		}
		report := answer(in, intent.Failed, err)
		if last, err := readAccepted(a.Root); err == nil { // otherwise the refusal names the error
			report.Accepted = last.Number
		}
		return a.insist(ctx, map[string]string{intent.ReportAnnotation: report.Encode()})
	}
	if a.last.Answers(in) || before.Answers(in) && before.State != intent.Working {
		return nil
	}
	report := answer(in, intent.Working, nil)
	if before.Answers(in) {
		report.Began = before.Began
	}
	a.tell(ctx, report)
	log, err := a.Work(ctx, in, func(step string) {
		report.Step = step
		report.Seconds = time.Since(report.Began).Seconds()
		a.tell(ctx, report)
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the work goes on when the agent is started again
	}
	report.State, report.Log, report.Seconds = intent.Done, log, time.Since(report.Began).Seconds()
	if err != nil {
		report.State, report.Error = intent.Failed, err.Error()
		if failed := new(lifecycle.StepError); errors.As(err, &failed) {
			report.Step = failed.Step.ID
		}
		a.Log.Error("failed", "operation", in.Operation, "error", err)
	}
	if err := a.insist(ctx, map[string]string{intent.ReportAnnotation: report.Encode()}); err != nil {
		return err
	}
	a.last = report
	if restarts(in) {
		return ErrReplaced
	}
	return a.replaced()
}

// answer returns the report of an intent that begins now.
func answer(in intent.Intent, state intent.State, err error) intent.Report {
	r := intent.Report{Number: in.Number, Upgrade: in.Upgrade, Operation: in.Operation, Attempt: in.Attempt, State: state, Began: time.Now().UTC()}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// tell writes how far the work is. An API that is away does not stop the work.
func (a *Agent) tell(ctx context.Context, r intent.Report) {
	if err := a.annotate(ctx, map[string]string{intent.ReportAnnotation: r.Encode()}); err != nil {
		a.Log.Warn("cannot tell how far this node is", "error", err)
	}
}

// insist writes annotations, and tries for as long as an API server may be away in an upgrade.
func (a *Agent) insist(ctx context.Context, annotations map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(patience))
	defer cancel()
	err := poll.Until(ctx, retryPause, nil, poll.Success(func(ctx context.Context) error { return a.annotate(ctx, annotations) }))
	if err != nil {
		return fmt.Errorf("write to the Node of this host: %w", err)
	}
	return nil
}

func (a *Agent) annotate(ctx context.Context, annotations map[string]string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = a.Client.CoreV1().Nodes().Patch(ctx, a.Node, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "sealift-agent"})
	return err
}

// introduce reports the agent and what it found on the host.
func (a *Agent) introduce(ctx context.Context) error {
	here, err := Look(a.Root, a.Version)
	if err != nil {
		return err
	}
	return a.insist(ctx, map[string]string{intent.AgentAnnotation: here.Encode()})
}

// replaced ends the agent when its program or its unit is another one by now.
func (a *Agent) replaced() error {
	if unit := a.unitFile(); a.unit != nil && unit != nil && !os.SameFile(a.unit, unit) {
		return ErrReplaced
	}
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return err
	}
	kept, err := os.Stat(node.Binary)
	if errors.Is(err, os.ErrNotExist) || err == nil && os.SameFile(own, kept) {
		return nil
	}
	return errors.Join(ErrReplaced, err)
}

// unitFile describes the file of this agent's unit; nil if there is none.
func (a *Agent) unitFile() fs.FileInfo {
	info, err := os.Stat(service.Agent(a.Root).File())
	if err != nil {
		return nil
	}
	return info
}

// program returns the path of a sealift with this digest: the running one, or one that fetch downloads.
func program(root, digest string, fetch func(io.Writer) error) (path string, err error) {
	if hasDigest(node.Binary, digest) {
		return node.Binary, nil
	}
	path = node.TemporaryFile(root, digest)
	if hasDigest(path, digest) {
		return path, nil
	}
	err = files.Fill(path, 0o755, func(f *os.File) error {
		sum := sha256.New()
		if err := fetch(io.MultiWriter(f, sum)); err != nil {
			return err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != digest {
			return fmt.Errorf("the fetched sealift has the digest %s, not %s", got, digest)
		}
		return nil
	})
	return path, err
}

func hasDigest(path, digest string) bool {
	program, err := bundle.DiskFile(bundle.BinaryName, 0o755, path)
	return err == nil && program.SHA256 == digest
}
