package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/recovery/retention"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/diskspace"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

// work does an operation on this host, alone: every operation that changes something holds the lock of the node.
func (a *Agent) work(ctx context.Context, in intent.Intent, step func(string)) (log string, err error) {
	if in.Operation == intent.Look {
		return "", a.introduce(ctx)
	}
	journal, err := node.Lock(a.Root)
	if err != nil {
		return "", err
	}
	if locksItself(in.Operation) { // a busy node refuses before anything is fetched
		err = journal.Close()
	} else {
		defer func() { err = errors.Join(err, journal.Close()) }()
	}
	if err != nil {
		return "", err
	}
	return a.change(ctx, in, step)
}

// locksItself reports whether the run of an operation opens the journal, and holds the lock of the node by that.
func locksItself(o intent.Operation) bool {
	return slices.Contains([]intent.Operation{intent.Prepare, intent.Upgrade, intent.Kubelet, intent.PrepareUndo}, o)
}

// change does an operation that changes this host.
func (a *Agent) change(ctx context.Context, in intent.Intent, step func(string)) (log string, err error) {
	if k := kindOf(in.Operation); k != nil {
		return a.apply(ctx, *k, in, step)
	}
	switch in.Operation {
	case intent.Undo:
		return a.undo(ctx, in, step)
	case intent.PrepareUndo:
		return a.prepareUndo(ctx, in, step)
	}
	client, err := a.Connect(in.Server)
	if err != nil {
		return "", err
	}
	of, err := operation.Host{Server: func() (*share.Client, error) { return client, nil }}.Cluster(ctx)
	if err != nil {
		return "", err
	}
	binary, err := program(a.Root, in.Sealift, func(w io.Writer) error { return client.Program(ctx, host.Platform, w) })
	if err != nil {
		return "", err
	}
	prepared, err := a.prepare(ctx, in, client, of, binary)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, prepared.Close()) }()
	if in.Operation == intent.Prepare {
		step("preflight")
		if err := checkHost(ctx, prepared); err != nil {
			return prepared.LogFile(), err
		}
		if in.UpgradeID != "" {
			step("keep what is replaced")
			if _, err := (retention.Node{Root: a.Root, Socket: runtime.Socket}).Keep(ctx, in.UpgradeID, in.From, step); err != nil {
				return prepared.LogFile(), err
			}
		}
	}
	_, err = prepared.RunPhases(ctx, func(e lifecycle.Event) {
		if e.Outcome == lifecycle.Started {
			step(e.Step.ID)
		}
	}, lifecycle.Phase(in.Operation))
	if err == nil && in.Operation == intent.Prepare && binary != node.Binary {
		err = files.Remove(binary)
	}
	return prepared.LogFile(), err
}

// undo puts back what the upgrade replaced on this host. Its pods go on running.
func (a *Agent) undo(ctx context.Context, in intent.Intent, step func(string)) (log string, err error) {
	store := undo.Store{Root: a.Root}
	set, err := store.Of(in.UpgradeID)
	if errors.Is(err, undo.ErrNone) {
		return "", a.isBack(ctx, in.From)
	}
	if err == nil {
		err = set.CheckAddress(store)
	}
	if err != nil {
		return "", err
	}
	output := node.NewLog(node.DefaultLogDir, lifecycle.Upgrading, nil)
	defer func() { err = errors.Join(err, output.Close()) }()
	step("put files back")
	err = set.PutBackNode(ctx, store, output, func() error {
		step("run kubelet " + set.From)
		ctx, cancel := context.WithTimeout(ctx, speed.Patience(kubeletTime))
		defer cancel()
		return cluster.RestartKubelet(ctx, a.Node, set.From, output)
	})
	if err != nil {
		return output.Name(), err
	}
	if _, err := store.PutBack(set, true); err != nil {
		return output.Name(), err
	}
	return output.Name(), set.Remove()
}

// isBack refuses an undo on a node that keeps nothing to go back to, unless it is Ready with the previous version: an undo deletes
// the copies at its end, and may be killed before it has reported that.
func (a *Agent) isBack(ctx context.Context, version string) error {
	own, err := a.Client.CoreV1().Nodes().Get(ctx, a.Node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("the Node of this host: %w", err)
	}
	ready := slices.ContainsFunc(own.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	if ready && own.Status.NodeInfo.KubeletVersion == "v"+version {
		return nil
	}
	return fmt.Errorf("%w; take it out with 'sealift node remove %s', undo the upgrade, and join it again", undo.ErrNone, a.Node)
}

// kubeletTime is how long the previous kubelet may take until its node is Ready.
const kubeletTime = 10 * time.Minute

// prepare plans what the bundle of an intent changes on this host.
func (a *Agent) prepare(ctx context.Context, in intent.Intent, client *share.Client, of share.Cluster, binary string) (*install.Install, error) {
	address, err := a.address(ctx)
	if err != nil {
		return nil, err
	}
	controlPlane, err := isThere(kubeadm.APIServerManifest)
	if err != nil {
		return nil, err
	}
	made, err := node.Made(a.Root)
	if err != nil {
		return nil, err
	}
	o := install.Options{
		Bundle: "of " + in.Server, Scope: node.Scope{Root: a.Root}, Binary: binary, Remote: true, Yes: true, Upgrade: &install.Upgrade{From: in.From, Address: address, Endpoint: of.Endpoint},
		Resume: "sealift upgrade, on the control plane that leads it",
		Adjust: func(*spec.Installer) (*spec.Installer, error) { return install.SharedInstaller(of) },
		Open: func() (*bundle.Archive, error) {
			archive, err := client.Archive(ctx)
			if err == nil && archive.Digest != in.Index {
				err = errors.Join(fmt.Errorf("%s serves a different bundle than the one of this upgrade", in.Server), archive.Close())
			}
			return archive, err
		},
	}
	if !made {
		o.Join = &install.Join{Cluster: of, Server: in.Server, Missing: client.Missing, ControlPlane: controlPlane}
	}
	return install.Prepare(ctx, o)
}

// address is the one by which the cluster knows this node; it is not valid for a node without any.
func (a *Agent) address(ctx context.Context) (netip.Addr, error) {
	own, err := a.Client.CoreV1().Nodes().Get(ctx, a.Node, metav1.GetOptions{})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("the Node of this host: %w", err)
	}
	for _, one := range own.Status.Addresses {
		if one.Type == corev1.NodeInternalIP {
			return netip.ParseAddr(one.Address)
		}
	}
	return netip.Addr{}, nil
}

// checkHost makes the checks of Sealift itself, none of an add-on's programs.
func checkHost(ctx context.Context, in *install.Install) error {
	record, err := in.Preflight(ctx, install.PreflightOptions{
		Node: preflight.Node{Join: in.Joins(), Primary: in.ControlPlane(), Upgrade: true}, Runs: install.RunNothing,
	})
	if err != nil {
		return err
	}
	return record.Err()
}

func isThere(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Look describes this host. Files of add-ons may lie on a disk of their own below the install root.
func Look(root, version string) (h intent.Host, err error) {
	h = intent.Host{Sealift: version, Signed: true, Time: time.Now().UTC()}
	if h.Free, err = space(filepath.Join(root, "addons")); err != nil {
		return h, err
	}
	if h.Enforcing, err = preflight.EnforcesSELinux(os.DirFS("/")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return h, err
	}
	h.Images, err = space(node.ContainerdDir)
	return h, err
}

// space returns the free space of the file system that a folder is on, or would be made on.
func space(folder string) (intent.Space, error) {
	s, err := diskspace.Of(folder)
	return intent.Space{Bytes: s.Bytes, Inodes: s.Inodes}, err
}
