package install

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/approver"
	"github.com/sealift/sealift/installer/cluster/encryption"
	"github.com/sealift/sealift/installer/cluster/oidc"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

// Join describes the cluster that the host joins, and its role.
type Join struct {
	Cluster      share.Cluster // as a control plane of it tells
	Server       string        // host:port of that control plane: the others reach this host where it does
	Token        string
	CAHash       string
	ControlPlane bool
	// Missing gives those of the digests that the control plane does not have.
	Missing func(ctx context.Context, digests []string) ([]string, error)
	// Keys gives the control plane's keys for Secrets: see package encryption. "" if it has none.
	Keys func(ctx context.Context) (string, error)
	// CertificateKey opens the certificates that a control plane needs from the others.
	CertificateKey string
}

// SharedInstaller is the Installer that the cluster was made with, without what is about the host that made it.
func SharedInstaller(c share.Cluster) (*spec.Installer, error) {
	s, err := spec.Parse("Installer of the cluster", strings.NewReader(c.Installer))
	if err != nil {
		return nil, err
	}
	own := s.Section("kurl").Options
	delete(own, "privateAddress")
	delete(own, "publicAddress")
	delete(own, "hostnameCheck")
	delete(own, "nodeLabels")
	return s, nil
}

// Joins reports whether the host becomes a node of a cluster that others made.
func (j *job) Joins() bool { return j.options.Join != nil }

// ControlPlane reports whether the host has a control plane once all is done. Then it also keeps what hosts that join need.
func (j *job) ControlPlane() bool {
	_, hasCluster := kubernetes(j.addOns)
	return hasCluster && (!j.Joins() || j.options.Join.ControlPlane)
}

// checkJoin refuses what cannot become a node of the cluster, before anything is changed.
func (j *job) checkJoin() error {
	if !j.Joins() {
		if j.past.Began(node.JoinStep) {
			return unmetf("to make one of its own, take that back with 'sealift reset'", "this host has joined a cluster")
		}
		return nil
	}
	c := j.options.Join.Cluster
	k, ok := kubernetes(j.addOns)
	switch {
	case j.past.Began(node.InitStep):
		return unmetf("to join another, take that back with 'sealift reset'", "this host has made a cluster")
	case !ok:
		return unmetf("join from another control plane", "the control plane was made from a bundle without Kubernetes")
	case j.options.Upgrade == nil && k.info.Version != c.KubernetesVersion:
		return unmetf("join from one that has the cluster's", "the cluster runs Kubernetes %s, and the control plane has files of %s", c.KubernetesVersion, k.info.Version)
	case j.options.Upgrade == nil && j.options.Join.ControlPlane && j.options.Join.CertificateKey == "":
		return unmetf("take the command from 'sealift token create --control-plane'", "a control plane needs the key of the cluster's certificates too")
	case j.past.Began(node.JoinStep):
		return nil
	case j.options.Upgrade == nil && j.options.Join.ControlPlane && c.NoControlPlane != "":
		return unmetf("then run this command again", "%s", c.NoControlPlane)
	}
	if slices.Contains(c.Ready, j.facts.Hostname) {
		return unmetf("give this host a name of its own with 'hostnamectl set-hostname NAME'", "the cluster has a node %s already, which is Ready", j.facts.Hostname)
	}
	if slices.Contains(c.Nodes, j.facts.Hostname) {
		return j.nameTaken()
	}
	used, err := j.used()
	if err != nil {
		return err
	}
	for _, text := range c.Networks().List() {
		p, err := netip.ParsePrefix(text)
		if err == nil {
			err = j.clash(p, used)
		}
		if err != nil {
			return unmetf("take that network off this host; a cluster keeps its networks", "the cluster's network %s: %v", text, err)
		}
	}
	return nil
}

// shared asks the control plane whether it still has what this host will take from it.
func (j *job) shared(ctx context.Context, r *preflight.Reporter) {
	needed := make(map[string]string)
	for _, a := range j.addOns {
		for _, e := range j.archive.Below(a.info.Dir()) {
			blob := strings.HasPrefix(e.Path, a.info.Dir()+"/images/") && len(j.archive.Index.Platforms) == 1 ||
				slices.Contains(a.platforms[e.Path], host.Platform)
			if blob || j.onNode(a, e) {
				needed[e.SHA256] = e.Path
			}
		}
	}
	missing, err := j.options.Join.Missing(ctx, slices.Collect(maps.Keys(needed)))
	switch {
	case err != nil:
		r.Refusef("run the command again", "the control plane cannot tell what it has: %v", err)
	case len(missing) > 0:
		r.Refusef("join from another control plane, or run 'sealift install' with the bundle on that one again",
			"the control plane lacks %s, one of %s", needed[missing[0]], plaintext.Count(len(missing), "file"))
	default:
		r.Passf("%d files on the control plane, each checked while it is used", len(needed))
	}
}

// joinVariables are the shell variables about the cluster that a node joins.
func (j *job) joinVariables() map[string]string {
	if !j.Joins() {
		return nil
	}
	c := j.options.Join.Cluster
	variables := c.Networks().State()
	maps.Copy(variables, map[string]string{"MASTER": flag(j.options.Join.ControlPlane), "DOCKER_REGISTRY_IP": c.Registry})
	return variables
}

func (i *Install) joinCluster(ctx context.Context) (lifecycle.State, error) {
	k, _ := kubernetes(i.addOns)
	by := i.kubeadm(k)
	// not for hooks, which leave what they know in the journal
	maps.Copy(by.Variables, map[string]string{
		"KUBEADM_TOKEN": i.options.Join.Token, "KUBEADM_TOKEN_CA_HASH": i.options.Join.CAHash, "CERT_KEY": i.options.Join.CertificateKey,
	})
	by.APIServers = i.options.Join.Cluster.APIServers
	if err := i.takeKeys(ctx); err != nil {
		return nil, err
	}
	if file := i.options.Join.Cluster.Authentication; file != "" && i.options.Join.ControlPlane {
		if _, err := (oidc.Host{}).Write([]byte(file)); err != nil {
			return nil, err
		}
	}
	if err := i.joinApproved(ctx, by); err != nil {
		return nil, err
	}
	// A rotation that began before this host was a node has not given it the new keys.
	return lifecycle.State{versionState: k.info.Version}, i.takeKeys(ctx)
}

// joinApproved has kubeadm join the host. A control plane approves what its own kubelet asks for; a worker waits for one.
func (i *Install) joinApproved(ctx context.Context, by cluster.Kubeadm) error {
	join := i.options.Join
	if !join.ControlPlane {
		err := by.Join(ctx, i.facts.Hostname, false)
		if err != nil && ctx.Err() == nil && slices.Contains(join.Cluster.Nodes, i.facts.Hostname) {
			return fmt.Errorf("%w\n%w", err, i.nameTaken())
		}
		return err
	}
	own, stop := context.WithCancel(ctx)
	var approves sync.WaitGroup
	approves.Go(func() { approver.ApproveOwn(own, i.facts.Hostname, join.Token, i.Log) })
	defer approves.Wait()
	defer stop()
	return by.Join(ctx, i.facts.Hostname, true)
}

// nameTaken says that the cluster has a node with the name of this host, which a token does not replace.
func (j *job) nameTaken() error {
	return unmetf(fmt.Sprintf("if that was this host, or one that is gone, run 'sealift node remove %s' on a control plane and then this command again; otherwise give this host a name of its own with 'hostnamectl set-hostname NAME'", j.facts.Hostname),
		"the cluster has a node %s already", j.facts.Hostname)
}

// takeKeys takes the keys for Secrets from the control plane, if this host becomes one, too.
func (i *Install) takeKeys(ctx context.Context) error {
	join := i.options.Join
	if !join.ControlPlane || join.Keys == nil {
		return nil
	}
	keys, err := join.Keys(ctx)
	if err != nil || keys == "" {
		return err
	}
	return encryption.Host{}.Import([]byte(keys))
}

func (i *Install) waitNode(ctx context.Context) (lifecycle.State, error) {
	return nil, cluster.WaitNode(ctx, i.facts.Hostname, i.Log)
}
