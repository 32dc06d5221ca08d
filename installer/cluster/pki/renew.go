package pki

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/service"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

// The IDs of steps. Every renewal ends with the last; a control plane begins with certs/issue, a worker with one of the others.
const (
	issueStep     = "certs/issue"
	bootstrapStep = "certs/bootstrap"
	kubeletStep   = "certs/kubelet"
	LastStep      = "certs/ready"
)

// How long a step may take. The kubelet checks its manifests every 20 seconds at the latest, and a pod may take its time to
// end.
const (
	shortTime = time.Minute
	podTime   = 10 * time.Minute
)

// resumeTime is how long a renewal that was interrupted is resumed. After that, a new one begins.
const resumeTime = 24 * time.Hour

// Options of a renewal. The zero value of a folder is its default.
type Options struct {
	node.Scope
	// Token is a join token of the cluster. A worker whose kubelet has no valid certificate needs it.
	Token string
}

// Renewal renews the certificates of this node. Only Run changes anything.
type Renewal struct {
	host    host
	options Options
	*node.Session
	worker     bool
	renewals   []renewal // of a control plane
	pods       []string  // that use them
	files      []string
	node       string // as the kubelet calls it
	generation string // when the renewal began; the inputs of its steps
	answers    bool   // the API answered before
}

// Prepare finds the certificates to renew, and checks that they can be renewed. Close must be called.
func Prepare(ctx context.Context, o Options) (_ *Renewal, err error) {
	session, err := o.Begin(lifecycle.Renewing)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	r := &Renewal{options: o, Session: session}
	if err := r.look(now); err != nil {
		return nil, err
	}
	if r.options.Token != "" {
		if err := r.host.checkToken(ctx, o.Token); err != nil {
			return nil, err
		}
	}
	if err = r.Lock(); err != nil {
		return nil, err
	}
	r.generation = generation(r.Journal.Records(), now)
	view, err := cluster.NewView()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.answers = view != nil && view.API(ctx).Ready
	return r, nil
}

// look reads the certificates and the manifests of the host.
func (r *Renewal) look(now time.Time) error {
	entries, err := r.host.list(now)
	if err != nil {
		return err
	}
	r.node = nodeName(entries)
	if _, err := os.Stat(r.host.Path(kubeadm.APIServerManifest)); errors.Is(err, fs.ErrNotExist) {
		return r.prepareWorker(entries, now)
	}
	r.options.Token = "" // the keys of the CAs are here
	if r.renewals, err = renewals(r.host, entries, now); err != nil {
		return err
	}
	manifests, err := r.host.manifests()
	if err != nil {
		return err
	}
	r.files = filesOf(r.renewals)
	r.pods = podsOf(r.files, manifests)
	if r.node == "" {
		return errors.New("/etc/kubernetes/kubelet.conf lacks the name of this node: it has no certificate that the cluster's CA signed")
	}
	return nil
}

// generation is when a renewal began: an interrupted last one, or the one that begins now.
func generation(records []lifecycle.Record, now time.Time) string {
	const layout = "20060102T150405.000Z"
	begun := ""
	for _, rec := range records {
		switch rec.Step {
		case issueStep, bootstrapStep, kubeletStep:
			begun = rec.Inputs
		case LastStep:
			if rec.Outcome == lifecycle.Finished {
				begun = ""
			}
		}
	}
	at, err := time.Parse(layout, begun)
	if err != nil || at.After(now) || now.Sub(at) > resumeTime {
		return now.UTC().Format(layout)
	}
	return begun
}

// RenewEnded renews the certificates of a control plane that have ended and that something uses, and returns their files. It restarts
// nothing. rootfs is the folder with the host's files; empty means /.
func RenewEnded(rootfs string, now time.Time) (names []string, err error) {
	h := host{files.Host{Rootfs: rootfs}}
	entries, err := h.list(now)
	if err != nil {
		return nil, err
	}
	ended := func(e Entry) bool { return e.Kind != CA && e.Ended(now) && len(e.UsedBy) > 0 }
	if !slices.ContainsFunc(entries, ended) {
		return nil, nil
	}
	all, err := renewals(h, slices.DeleteFunc(entries, func(e Entry) bool { return e.Kind != CA && !ended(e) }), now)
	if err != nil {
		return nil, err
	}
	return filesOf(all), h.issue(all, now)
}

// Files are the files that get a new certificate.
func (r *Renewal) Files() []string { return r.files }

// Plan returns the steps. Those that an interrupted renewal has finished are skipped when it runs.
func (r *Renewal) Plan() lifecycle.Plan {
	step := func(id, title string, timeout time.Duration, run func(context.Context) error) lifecycle.Step {
		return lifecycle.Step{ID: id, Phase: lifecycle.Outro, Title: title, Timeout: timeout, Inputs: r.generation,
			Run: func(ctx context.Context) (lifecycle.State, error) { return nil, run(ctx) }}
	}
	if r.worker {
		return r.workerPlan(step)
	}
	plan := lifecycle.Plan{
		step(issueStep, fmt.Sprintf("renew %d certificates", len(r.renewals)), shortTime, func(context.Context) error { return r.host.issue(r.renewals, time.Now()) }),
		step(kubeletStep, "restart the kubelet", shortTime, r.restartKubelet),
	}
	for _, pod := range r.pods {
		plan = append(plan, step("certs/"+pod, "restart "+pod, podTime, func(ctx context.Context) error {
			if err := r.host.restart(pod, r.generation); err != nil || !r.answers {
				return err
			}
			return r.host.waitPod(ctx, pod, r.node, r.generation)
		}))
	}
	return append(plan,
		step("certs/share", "restart the service for hosts that join", shortTime, r.restartShare),
		step(LastStep, "wait for the Kubernetes API", podTime, r.waitReady))
}

// Run renews the certificates and restarts what uses them, one at a time if the API answers.
func (r *Renewal) Run(ctx context.Context, observe func(lifecycle.Event)) error {
	_, err := lifecycle.Run(ctx, lifecycle.Renewing, r.Plan(), r.Journal, r.Log.Narrate(observe))
	return err
}

// restartKubelet also lets the kubelet make a new serving certificate, if it signs that itself: it does so when it starts and
// has none.
func (r *Renewal) restartKubelet(ctx context.Context) error {
	for _, name := range KubeletServing() {
		if err := files.Remove(r.host.Path(name)); err != nil {
			return err
		}
	}
	return command.Run(ctx, r.Log, "systemctl", "restart", "kubelet")
}

// restartShare restarts the service that asks the API with admin.conf: it reads that file only when it starts.
func (r *Renewal) restartShare(ctx context.Context) error {
	return command.TryRestart(ctx, r.Log, service.Sharer(r.options.Root).Name)
}

// waitReady waits for all pods, including those skipped while the API was down.
func (r *Renewal) waitReady(ctx context.Context) error {
	for _, pod := range r.pods {
		if err := r.host.waitPod(ctx, pod, r.node, r.generation); err != nil {
			return err
		}
	}
	return cluster.WaitAPI(ctx, r.Log)
}
