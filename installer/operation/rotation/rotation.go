// Package rotation replaces the CAs of a cluster, and its service-account key, while the cluster works. It leads all nodes from one
// stage to the next: see package authority. What a node does is in package pki.
//
// A rotation has two parts, with a decision of a person between them. The first part gives every node the new CAs in addition to
// the old ones. The second part forgets the old ones, once nothing needs them. Both can be killed at any moment, and are resumed by
// the same command.
package rotation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/record"
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

// Kind is a rotation of CAs. An agent takes the rotation from the control plane that asks, with private keys if it is one itself.
var Kind = operation.Kind{
	Name: record.CAs, Asks: intent.Rotate, Roles: []intent.Role{intent.Worker, intent.ControlPlane}, Journal: lifecycle.RotatingCAs, Apply: bring,
	Restarts: func(string) bool { return true },
}

// params are stored in the cluster's record of a rotation. The keys are in files.
type params struct {
	Parts  []string   `json:"parts"`
	Signed *time.Time `json:"signed,omitempty"`
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
	nodes   operation.Nodes
	run     *operation.Run
	site    *operation.Site
	client  func() (kubernetes.Interface, error) // with the credentials that this host has now
	// fetch gets the rotation with an ID from another control plane; ok is false if none of them has it.
	fetch func(ctx context.Context, id string) (s authority.State, ok bool, err error)
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
func (r *Rotation) begin(ctx context.Context, records operation.Records, now time.Time) error {
	state, here, err := authority.Read(r.rootfs)
	if err != nil {
		return err
	}
	known, err := operation.Known(ctx, records, Kind.Name)
	if err != nil {
		return err
	}
	if known != nil && (!here || state.ID != known.ID) { // this host was not reached yet
		if state, here, err = r.fetch(ctx, known.ID); err != nil {
			return fmt.Errorf("a rotation of CAs is under way, which control plane %s led last, and this one does not have its keys: %w", known.Leader, err)
		}
	}
	r.run = &operation.Run{Own: r.own, Known: known, Records: records, Nodes: r.nodes}
	switch {
	case here:
		if err := r.resume(ctx, state, known); err != nil {
			return err
		}
	case r.options.Finish:
		return errors.New("no rotation of CAs is under way; 'sealift certs rotate-ca' begins one")
	default: // also if a leader was killed before anybody got its keys
		names := r.options.Only
		if len(names) == 0 {
			names = authority.Names()
		}
		if r.state, err = authority.New(r.rootfs, names, now); err != nil {
			return err
		}
	}
	if r.run.Record.ID == "" {
		r.run.Record = record.Record{ID: r.state.ID, Kind: Kind.Name, Began: now.UTC()}
		if here && r.state.Stage == authority.Forget { // it was killed after it had removed the record
			r.run.Record.Stage = LastStep
		}
	}
	r.stages()
	r.run.Record.About, r.run.Record.Next = record.RotatingCAs(r.state.ID), "run '"+strings.TrimPrefix(r.state.Next(), "sudo ")+"' on a control plane"
	r.run.Record.Params, err = json.Marshal(params{r.Parts(), r.state.Signed})
	return err
}

func (r *Rotation) resume(ctx context.Context, state authority.State, known *record.Record) error {
	r.state, r.Resumes = state, true
	if known != nil {
		var p params
		if len(known.Params) > 0 {
			if err := known.Decode(&p); err != nil {
				return err
			}
		}
		if r.state.Signed == nil { // another control plane led
			r.state.Signed = p.Signed
		}
		r.run.Resume(*known)
	}
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
	return r.findHolders(ctx)
}

func (r *Rotation) findHolders(ctx context.Context) error {
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

// stages are those of this run.
func (r *Rotation) stages() {
	if r.run.Keeps = !r.options.Finish; r.run.Keeps {
		r.run.Stages = []operation.Stage{
			{ID: recordStep, Title: "make the new " + strings.Join(r.Parts(), ", "), Timeout: shortTime, Before: r.save},
			{ID: trustStep, Title: "let every node trust the old and the new", Timeout: stageTime, Before: r.publish, Nodes: r.takesPart, AtOnce: 1},
			{ID: signStep, Title: "let the new ones sign", Timeout: stageTime, Before: r.sign, Nodes: r.takesPart, AtOnce: 1, After: r.signed},
		}
		return
	}
	if r.options.Restart {
		r.run.Stages = append(r.run.Stages, operation.Stage{ID: restartStep, Title: "restart workloads from before", Timeout: restartTime, Before: r.restart})
	}
	r.run.Stages = append(r.run.Stages,
		operation.Stage{ID: tokensStep, Title: "renew tokens in Secrets", Timeout: shortTime, Before: r.tokens},
		operation.Stage{ID: forgetStep, Title: "let every node forget the old ones", Timeout: stageTime, Before: r.forget, Nodes: r.takesPart, AtOnce: 1},
		operation.Stage{ID: LastStep, Title: "remove the record of the rotation", Timeout: shortTime})
}

// takesPart selects the control planes, and workers if they know what is rotated.
func (r *Rotation) takesPart(n cluster.Node) bool {
	_, ok := r.state.Part(authority.Cluster)
	return ok || n.ControlPlane()
}

// Plan returns the steps. Those that an interrupted rotation has finished are skipped when it runs.
func (r *Rotation) Plan() lifecycle.Plan { return r.run.Plan() }

// save writes the new keys down on this host.
func (r *Rotation) save(context.Context) error {
	return files.WriteMode(files.Host{Rootfs: r.rootfs}.Path(authority.File), 0o600, r.state.Encode())
}

func (r *Rotation) sign(ctx context.Context) error {
	if r.state.Stage == authority.Trust {
		r.state = r.state.In(authority.Sign)
	}
	return r.save(ctx)
}

// signed notes when every node had the new CAs.
func (r *Rotation) signed(ctx context.Context) error {
	if err := r.serving(ctx); err != nil { // pods that start from now on read them
		return err
	}
	now := time.Now().UTC().Truncate(time.Second) // as pods have their time: one that is made in this second is not from before
	r.state.Signed = &now
	if err := r.save(ctx); err != nil {
		return err
	}
	if err := r.run.Save(ctx, params{r.Parts(), r.state.Signed}); err != nil {
		return err
	}
	return r.findHolders(ctx)
}

func (r *Rotation) forget(ctx context.Context) error {
	r.state = r.state.In(authority.Forget)
	if err := r.save(ctx); err != nil {
		return err
	}
	return r.publish(ctx)
}

// lead runs the part. At the end it removes the rotation from this host.
func (r *Rotation) lead(ctx context.Context, observe func(lifecycle.Event)) error {
	return r.ended(r.run.Lead(ctx, lifecycle.RotatingCAs, r.Journal, observe))
}

func (r *Rotation) ended(err error) error {
	if err != nil || r.run.Keeps {
		return err
	}
	return authority.Remove(r.rootfs)
}
