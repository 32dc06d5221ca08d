// Package rotation replaces the CAs of a cluster, and its service-account key, while the cluster works. It leads all nodes from one
// stage to the next: see package authority. What a node does is in package pki.
//
// A rotation has two parts, with a decision of a person between them. The first part gives every node the new CAs in addition to
// the old ones. The second part forgets the old ones, once nothing needs them. Both can be killed at any moment, and are resumed by
// the same command.
package rotation

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/kube"
)

// The IDs of the steps. The first part ends with signStep, the second one with LastStep.
const (
	recordStep  = "rotate-ca/record"
	trustStep   = "rotate-ca/trust"
	signStep    = "rotate-ca/sign"
	restartStep = "rotate-ca/restart"
	tokensStep  = "rotate-ca/tokens"
	forgetStep  = "rotate-ca/forget"
	LastStep    = "rotate-ca/done"
)

// How long a step may take. A control plane takes minutes for a stage, and there may be many nodes.
const (
	shortTime   = 10 * time.Minute
	stageTime   = 6 * time.Hour
	restartTime = 30 * time.Minute
)

// Options of a rotation. The zero value of a folder is its default.
type Options struct {
	node.Scope
	// Only names the parts to rotate; empty for all, or for those of the resumed rotation.
	Only []string
	// Finish forgets the old CAs.
	Finish bool
	// Restart restarts the workloads that may have the old CA in their memory, before Finish.
	Restart bool
}

// Nodes are those of a cluster.
type Nodes interface {
	// List returns the names of the control planes, this host's first, and of the workers.
	List(ctx context.Context) (controlPlanes, workers []string, err error)
	// Bring brings a node to the stage of a rotation. It may be repeated.
	Bring(ctx context.Context, name string, s authority.State) error
}

// Rotation rotates the CAs of a cluster. Only Run changes anything.
type Rotation struct {
	Resumes bool
	// Holders run since before the new CAs signed. They may know only the old ones. Run completes them.
	Holders []Holder

	options Options
	state   authority.State
	own     string // this node
	rootfs  string
	nodes   Nodes
	client  func() (kubernetes.Interface, error) // with the credentials that this host has now
	cluster *kube.Cluster                        // has the Lease for restarts of API servers: one holder at a time
	*node.Session
	pause time.Duration
}

// Signed reports whether every node has the new CAs, so that only Finish is left.
func (r *Rotation) Signed() bool { return r.state.Signed != nil }

// Parts are the names of the rotated parts.
func (r *Rotation) Parts() []string { return r.state.Rotated() }

// Pin is the hash of the new cluster CA, which commands for joining name; "" if that CA is not rotated.
func (r *Rotation) Pin() (string, error) {
	p, ok := r.state.Part(authority.Cluster)
	if !ok {
		return "", nil
	}
	_, renewed, err := p.Certificates()
	if err != nil {
		return "", err
	}
	return identity.CAHash(renewed), nil
}

// begin resumes the rotation that this host or the cluster knows of, or begins one.
func (r *Rotation) begin(ctx context.Context, now time.Time) error {
	state, known, err := authority.Read(r.rootfs)
	if err != nil {
		return err
	}
	client, err := r.client()
	if err != nil {
		return err
	}
	var record map[string]string
	var told bool
	if err := insist(ctx, client, func(ctx context.Context, client kubernetes.Interface) (err error) {
		record, told, err = ownRecord.Read(ctx, client)
		return err
	}); err != nil {
		return err
	}
	switch {
	case told && (record["leader"] != r.own || known && record["id"] != state.ID):
		return fmt.Errorf("a rotation of CAs is under way, which control plane %s leads: run the command there; if that host is gone, "+
			"delete the record with 'kubectl --namespace kube-system delete configmap %s', and run the command again here", record["leader"], ownRecord)
	case known:
		return r.resume(ctx, state)
	case r.options.Finish:
		return errors.New("no rotation of CAs is under way; 'sealift certs rotate-ca' begins one")
	}
	names := r.options.Only
	if len(names) == 0 {
		names = authority.Names()
	}
	r.state, err = authority.New(r.rootfs, names, now)
	return err
}

func (r *Rotation) resume(ctx context.Context, state authority.State) error {
	r.state, r.Resumes = state, true
	only, parts := slices.Sorted(slices.Values(r.options.Only)), slices.Sorted(slices.Values(r.Parts()))
	if len(only) > 0 && !slices.Equal(only, parts) {
		return fmt.Errorf("a rotation of %s is under way; end it first, without --only", strings.Join(parts, ", "))
	}
	switch {
	case r.options.Finish && !r.Signed():
		return errors.New("not every node has the new CAs yet; run 'sealift certs rotate-ca' first")
	case r.state.Stage == authority.Forget && !r.options.Finish:
		return errors.New("the old CAs are being forgotten; run 'sealift certs rotate-ca --finish'")
	case !r.Signed():
		return nil
	}
	return r.lookAtHolders(ctx)
}

func (r *Rotation) lookAtHolders(ctx context.Context) error {
	client, err := r.client()
	if err != nil {
		return err
	}
	return insist(ctx, client, func(ctx context.Context, client kubernetes.Interface) (err error) {
		r.Holders, err = holders(ctx, client, *r.state.Signed)
		return err
	})
}

// Check refuses to forget the old CAs while something needs them.
func (r *Rotation) Check() error {
	if !r.options.Finish || r.state.Stage == authority.Forget {
		return nil
	}
	var left []string
	for _, h := range r.Holders {
		if !r.options.Restart || !h.restarts() {
			left = append(left, h.String())
		}
	}
	switch {
	case len(left) == 0:
		return nil
	case r.options.Restart:
		return fmt.Errorf("these started before the new CAs, and nothing restarts them: %s; delete them, or wait for their end", strings.Join(left, ", "))
	}
	return fmt.Errorf("these started before the new CAs, and may know only the old ones: %s; restart them with 'kubectl rollout restart', or give --restart-workloads", strings.Join(left, ", "))
}

// Plan returns the steps. Those that an interrupted rotation has finished are skipped when it runs.
func (r *Rotation) Plan() (plan lifecycle.Plan) {
	add := func(id, title string, timeout time.Duration, run func(context.Context) error) {
		plan = append(plan, lifecycle.Step{ID: id, Phase: lifecycle.Outro, Title: title, Timeout: timeout, Inputs: r.state.ID,
			Run: func(ctx context.Context) (lifecycle.State, error) { return nil, run(ctx) }})
	}
	if !r.options.Finish {
		add(recordStep, "make the new "+strings.Join(r.Parts(), ", "), shortTime, r.record)
		add(trustStep, "let every node trust the old and the new", stageTime, r.trust)
		add(signStep, "let the new ones sign", stageTime, r.sign)
		return plan
	}
	if r.options.Restart {
		add(restartStep, "restart workloads from before", restartTime, r.restart)
	}
	add(tokensStep, "renew tokens in Secrets", shortTime, r.tokens)
	add(forgetStep, "let every node forget the old ones", stageTime, r.forget)
	add(LastStep, "remove the record of the rotation", shortTime, r.done)
	return plan
}

// record stores the new keys on this host, and the rotation in the cluster.
func (r *Rotation) record(ctx context.Context) error {
	if err := r.tell(ctx); err != nil {
		return err
	}
	return r.save()
}

func (r *Rotation) save() error {
	return files.WriteMode(filepath.Join("/", r.rootfs, authority.File), 0o600, r.state.Encode())
}

func (r *Rotation) trust(ctx context.Context) error {
	if err := r.publish(ctx); err != nil {
		return err
	}
	return r.spread(ctx)
}

func (r *Rotation) sign(ctx context.Context) error {
	if r.state.Stage == authority.Trust {
		r.state = r.state.In(authority.Sign)
		if err := r.save(); err != nil {
			return err
		}
	}
	if err := r.spread(ctx); err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second) // as pods have their time: one that is made in this second is not from before
	r.state.Signed = &now
	if err := r.save(); err != nil {
		return err
	}
	return r.lookAtHolders(ctx)
}

func (r *Rotation) forget(ctx context.Context) error {
	r.state = r.state.In(authority.Forget)
	if err := r.save(); err != nil {
		return err
	}
	if err := r.publish(ctx); err != nil {
		return err
	}
	return r.spread(ctx)
}

// done removes the record of the rotation.
func (r *Rotation) done(ctx context.Context) error {
	client, err := r.client()
	if err == nil {
		err = insist(ctx, client, ownRecord.Forget)
	}
	if err != nil {
		return err
	}
	return authority.Remove(r.rootfs)
}

// spread brings every node to the stage, in sequence, including those that have joined in the meantime.
func (r *Rotation) spread(ctx context.Context) error {
	done := map[string]bool{}
	for {
		controlPlanes, workers, err := r.nodes.List(ctx)
		if err != nil {
			return err
		}
		if _, ok := r.state.Part(authority.Cluster); !ok { // workers know no other CA
			workers = nil
		}
		all := slices.DeleteFunc(append(controlPlanes, workers...), func(name string) bool { return done[name] })
		if len(all) == 0 {
			return nil
		}
		if err := r.nodes.Bring(ctx, all[0], r.state); err != nil {
			return fmt.Errorf("node %s: %w", all[0], err)
		}
		done[all[0]] = true
	}
}

func (r *Rotation) run(ctx context.Context, observe func(lifecycle.Event)) error {
	_, err := lifecycle.Run(ctx, lifecycle.RotatingCAs, r.Plan(), r.Journal, observe)
	return err
}
