package install

import (
	"context"
	"io"
	"time"

	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

// Seed lets the host that makes a cluster continue one, with its keys, its networks and etcd's data.
type Seed struct {
	ID         string // of the operation: the same command resumes it
	Kubernetes string // version of the cluster
	Networks   node.ClusterNetworks
	Address    string // of this host; "" to choose one
	Encrypted  bool   // Plant also writes the keys with which the API server encrypts Secrets
	// Volumes writes the volumes that the host lacks; nil if there are none. It may be repeated.
	Volumes *SeedVolumes
	// Plant writes the keys and etcd's data before kubeadm, which keeps existing ones. It may be repeated.
	Plant func(ctx context.Context, node, address string, output io.Writer) error
	// Settle changes the cluster's objects, once its API answers. It may be repeated.
	Settle func(ctx context.Context, node, address string, output io.Writer) error
}

// SeedVolumes writes volumes.
type SeedVolumes struct {
	Title   string
	Timeout time.Duration
	Write   func(ctx context.Context, output io.Writer) error
}

// seedState is where the record of the step that makes the cluster has the ID of its seed.
const seedState = "SEALIFT_SEED"

// checkSeed refuses a seed on a host that already has a cluster, unless that came from the seed.
func (j *job) checkSeed() error {
	if j.options.Seed == nil {
		return nil
	}
	k, makes := kubernetes(j.addOns)
	if !makes {
		return unmetf("use the bundle that the cluster was made from", "the bundle has no Kubernetes, so that no cluster can be restored from it")
	}
	if k.info.Version != j.options.Seed.Kubernetes {
		return unmetf("use a bundle with that version", "the bundle has Kubernetes %s, and the cluster has %s", k.info.Version, j.options.Seed.Kubernetes)
	}
	rec, made := j.past.Finished(lifecycle.Step{ID: node.InitStep, Inputs: initInputs})
	if j.past.Began(node.JoinStep) || made && rec.State[seedState] != j.options.Seed.ID {
		return unmetf("'sealift restore' without --bundle restores a control plane on its own host", "this host is part of a cluster already")
	}
	return nil
}

// seeded replaces the host's own choices with those of the seed.
func (s *settings) seeded(by *Seed) {
	if by == nil {
		return
	}
	s.pods.network, s.services.network = by.Networks.Pods, by.Networks.Services
	if by.Address != "" {
		s.address = by.Address
	}
}

// seedVolumes adds the step that writes volumes, before the kubelet starts pods that use them.
func (p *planner) seedVolumes() {
	if p.options.Seed == nil || p.options.Seed.Volumes == nil {
		return
	}
	v := p.options.Seed.Volumes
	p.add(lifecycle.Step{ID: "restore/volumes", Phase: lifecycle.Install, Title: v.Title, Timeout: v.Timeout, Inputs: lifecycle.Digest(p.options.Seed.ID)},
		func(i *Install, ctx context.Context) (lifecycle.State, error) { return nil, v.Write(ctx, i.Log) })
}

// settle adds the step after which the cluster belongs to this host.
func (p *planner) settle() {
	seed := p.options.Seed
	if seed == nil {
		return
	}
	p.add(lifecycle.Step{ID: "restore/others", Phase: lifecycle.Install, Title: "remove the nodes that are gone", Timeout: shortTime,
		Inputs: lifecycle.Digest(seed.ID)}, inCluster(func(i *Install, ctx context.Context) (lifecycle.State, error) {
		return nil, seed.Settle(ctx, i.facts.Hostname, i.settings.address, i.Log)
	}))
}
