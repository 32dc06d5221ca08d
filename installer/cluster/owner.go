package cluster

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/lease"
)

// applier applies add-ons to a cluster as its administrator.
type applier struct {
	engine  *kube.Engine
	client  kubernetes.Interface
	records addon.Records
}

// administrator opens the cluster with the rights that kubeadm leaves on a control plane.
func administrator() (*applier, error) {
	config, err := Config(kubeadm.AdminKubeconfig)
	if err != nil {
		return nil, err
	}
	return newApplier(config)
}

func newApplier(config *rest.Config) (*applier, error) {
	cluster, err := kube.Connect(config, nil)
	if err != nil {
		return nil, err
	}
	client, err := typedClient(cluster)
	if err != nil {
		return nil, err
	}
	engine := kube.New(cluster, kube.Options{})
	m := &applier{engine: engine, client: client, records: addon.RecordsOf(cluster.Dynamic())}
	m.records.Retry = func(ctx context.Context, request func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, speed.Patience(kube.DefaultApplyTimeout))
		defer cancel()
		return engine.Retry(ctx, kube.Ref{Kind: "ConfigMap", Namespace: addon.Namespace}, request)
	}
	return m, nil
}

// alone calls work while nobody else applies add-ons to the cluster.
func (m *applier) alone(ctx context.Context, output io.Writer, work func(context.Context) error) error {
	o := leaseFor(speed.Patience)
	o.Waiting = func(holder string) { fmt.Fprintln(output, addon.Waiting(holder)) }
	o.Lost = func(err error) { fmt.Fprintf(output, "starting over: %v\n", err) }
	return lease.Run(ctx, m.engine.Cluster, o, work)
}

// leaseTime is how long others wait for a silent holder of the Lease of add-ons. A quarter of two thirds of it is for one request.
const leaseTime = 15 * time.Second

// leaseFor returns the Lease of add-ons with the times that patience gives this host. The API server of a slow host takes seconds for an answer,
// and minutes after a loss of power.
func leaseFor(patience func(time.Duration) time.Duration) lease.Options {
	return lease.Options{Namespace: addon.Namespace, Name: addon.Lease, Duration: patience(leaseTime).Round(time.Second), Outage: patience(kube.DefaultApplyTimeout)}
}

// KeptBy reports that an add-on stays with its owner, and how the installer gets it back.
func KeptBy(r addon.Record) string {
	line := fmt.Sprintf("add-on %s is kept by %s at version %s: its objects are left alone", r.Name, r.Owner, r.Version)
	switch r.Owner.Kind {
	case addon.ChannelKind:
		line += fmt.Sprintf("; 'sealift channel release %s' gives it back", r.Owner.Name)
	case addon.CommandKind:
		line += fmt.Sprintf("; 'sealift addon remove %s' removes it", r.Name)
	}
	return line
}

// Owners reads who owns the add-ons of the cluster.
func (v *View) Owners(ctx context.Context) ([]addon.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(healthTime))
	defer cancel()
	return addon.RecordsOf(v.cluster.Dynamic()).List(ctx)
}

// setOf returns the set that has the objects of an add-on, according to its record.
func setOf(name string, records []addon.Record) kube.Set {
	for _, r := range records {
		if set, err := kube.ParseSet(r.Set); err == nil && r.Name == name {
			return set
		}
	}
	return kube.Set{Name: name}
}
