package adopt

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/service"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/kube"
)

// stepTime bounds a step: none waits for pods.
const stepTime = 5 * time.Minute

// makePlan lists all steps. Those that others look for in the journal have the names of an install's. The records of running
// add-ons come last: until then the node does not count as one of Sealift's.
func (a *Adoption) makePlan() (lifecycle.Plan, error) {
	binary, err := bundle.DiskFile(bundle.BinaryName, 0o755, a.options.Binary)
	if err != nil {
		return nil, fmt.Errorf("read the running sealift: %w", err)
	}
	var plan lifecycle.Plan
	add := func(id, title, inputs string, run func(context.Context) error) {
		plan = append(plan, lifecycle.Step{ID: id, Phase: lifecycle.Install, Title: title, Inputs: inputs, Timeout: stepTime,
			Run: func(ctx context.Context) (lifecycle.State, error) { return nil, run(ctx) }})
	}
	unit := func(id, title string, u service.Unit) {
		add(id, title, lifecycle.Digest(u.Text), func(ctx context.Context) error { return u.Start(ctx, a.Log) })
	}
	add("node/sealift", "keep sealift at "+node.Binary, lifecycle.Digest(binary.SHA256), a.keepBinary)
	f := a.Found
	if f.Host.ControlPlane {
		c, err := consoleOf(a.options.Binary, a.options.Root)
		if err != nil {
			return nil, err
		}
		if c.from != "" {
			add("node/console", "keep sealift-console at "+c.kept, lifecycle.Digest(c.digest), c.keep)
		}
	}
	if f.Cluster.Kurl != nil && f.Cluster.Kurl.Installer != nil {
		text, err := f.Cluster.Kurl.Installer.Canonical()
		if err != nil {
			return nil, err
		}
		add("node/installer", "keep kURL's Installer", lifecycle.Digest(string(text)), func(context.Context) error {
			return files.WriteMode(node.InstallerFile(a.options.Root), 0o600, text) // it may have secrets
		})
	}
	if a.First() {
		add("kurl/owners", "note in the cluster that the installer keeps kURL's add-ons", lifecycle.Digest(f.Cluster.Kurl), a.own)
	}
	if balancer.Serves(f.Cluster.Endpoint) && !f.Host.Haproxy {
		add(node.BalancerStep, "reach the API on this host at "+balancer.Endpoint, lifecycle.Digest(service.Balancer(a.options.Root).Text), a.startBalancer)
	}
	if f.Host.ControlPlane {
		unit("node/share", "serve hosts that join", service.Sharer(a.options.Root))
	}
	unit("node/agent", "take part in upgrades; from the first one on, renew certificates", service.Agent(a.options.Root))
	if f.Host.ControlPlane {
		add(node.ApprovalStep, "let agents approve certificates of nodes, and not the cluster itself", lifecycle.Digest(node.ApprovalStep), func(ctx context.Context) error {
			return cluster.LetAgentsApprove(ctx, a.Log)
		})
	}
	records := install.Adopted{First: a.First(), Kubernetes: f.Cluster.Version, AddOns: f.AddOns(), Networks: f.Cluster.ClusterNetworks}
	return append(plan, records.Records()...), nil
}

func (a *Adoption) keepBinary(context.Context) error {
	if err := files.MkdirAll(filepath.Dir(node.Binary), 0o755); err != nil {
		return err
	}
	return files.Copy(node.Binary, 0o755, a.options.Binary)
}

// own records in the cluster that the installer keeps the add-ons that kURL applied. One that a channel keeps stays with it.
func (a *Adoption) own(ctx context.Context) error {
	return own(ctx, addon.RecordsOf(a.view.Cluster().Dynamic()), a.Found.Cluster.Kurl.Applied, func(line string) { fmt.Fprintln(a.Log, line) })
}

func own(ctx context.Context, records addon.Records, applied []node.AddOn, say func(string)) error {
	for _, one := range applied {
		set := kube.Set{Name: one.Name, Namespace: kube.DefaultNamespace}
		_, err := records.Claim(ctx, one.Name, addon.Ownership{Owner: addon.Installer(), Policy: addon.OnChange, Set: set.String()})
		if err == nil {
			_, err = records.SetApplied(ctx, one.Name, addon.Installer(), addon.Applied{Version: one.Version})
		}
		if _, ok := errors.AsType[*addon.OwnedError](err); ok {
			say(err.Error())
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *Adoption) startBalancer(ctx context.Context) error {
	client, err := kubernetes.NewForConfigAndClient(a.view.Cluster().Config())
	if err != nil {
		return err
	}
	servers, err := balancer.Discover(ctx, client)
	if err != nil {
		return err
	}
	if err := balancer.WriteList(node.APIServersFile(a.options.Root), servers); err != nil {
		return err
	}
	return service.Balancer(a.options.Root).Start(ctx, a.Log)
}
