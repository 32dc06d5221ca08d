package install

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/service"
	"github.com/sealift/sealift/installer/host/bundlepolicy"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

// balancer adds the step for the API on this host, unless the cluster has a load balancer.
func (p *planner) balancer() {
	if !balancer.Serves(p.settings.endpoint) {
		return
	}
	p.add(lifecycle.Step{ID: node.BalancerStep, Phase: lifecycle.PreInit, Title: "reach the API on this host at " + balancer.Endpoint, Timeout: shortTime,
		Inputs: lifecycle.Digest(service.Balancer(p.options.Root).Text)}, (*Install).startBalancer)
}

func (i *Install) startBalancer(ctx context.Context) (lifecycle.State, error) {
	servers := []string{netJoin(i.settings.address, 6443)}
	if i.Joins() {
		servers = i.options.Join.Cluster.APIServers
	}
	if err := balancer.WriteList(node.APIServersFile(i.options.Root), servers); err != nil {
		return nil, err
	}
	return nil, service.Balancer(i.options.Root).Start(ctx, i.Log)
}

// share adds the step by which hosts that join can take their files from this one.
func (p *planner) share() {
	inputs := []any{p.archive.Digest, service.Sharer(p.options.Root).Text, p.spec.AddOns}
	if signed, err := p.archive.Verdict(); err == nil {
		inputs = append(inputs, signed)
	}
	p.add(lifecycle.Step{ID: "node/share", Phase: lifecycle.Install, Title: "serve hosts that join", Timeout: shortTime,
		Inputs: lifecycle.Digest(inputs...), Beside: true}, (*Install).startShare)
}

func (i *Install) startShare(ctx context.Context) (lifecycle.State, error) {
	index, sig := i.archive.Raw()
	installed, err := filepath.Rel(i.options.Root, node.InstallerFile(i.options.Root))
	if err != nil {
		return nil, err
	}
	text, err := i.spec.Canonical()
	if err != nil {
		return nil, err
	}
	for name, data := range map[string][]byte{"index.json": index, "index.json.sig": sig, installed: text} {
		if len(data) == 0 {
			continue
		}
		// an Installer may have secrets
		if err := files.WriteMode(filepath.Join(i.options.Root, name), 0o600, data); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(bundlepolicy.KeepVerdict(i.archive, i.options.Root), i.extractRoot(ctx)); err != nil {
		return nil, err
	}
	return nil, service.Sharer(i.options.Root).Start(ctx, i.Log)
}

// extractRoot extracts the files at the root of the bundle.
func (i *Install) extractRoot(ctx context.Context) error {
	root, err := files.OpenRoot(i.options.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	return errors.Join(i.archive.Extract(ctx, root, func(e bundle.Entry) bool { return e.Path == bundle.InstallerName }), i.keepProgram(ctx), i.keepConsole(ctx))
}
