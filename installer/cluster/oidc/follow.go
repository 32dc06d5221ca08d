package oidc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/regularfile"
)

const (
	pause    = 15 * time.Second // between two looks at the ConfigMap
	passTime = 30 * time.Second
	// restartTime is how long a restarted API server gets until it says that it uses the file.
	restartTime = 4 * time.Minute
)

// Follower keeps the file of a control plane as the cluster's ConfigMap has it.
type Follower struct {
	Host   Host
	Client kubernetes.Interface
	// InTurn runs work that restarts this control plane's API server, while no other control plane is down.
	InTurn func(ctx context.Context, work func(context.Context) error) error
	// Uses returns the sha256, in hex, of the file that this control plane's API server uses; "" if it uses none.
	Uses func(context.Context) (string, error)
}

// Watch follows the ConfigMap on a control plane until ctx ends. On a worker it returns at once. inTurn is Follower.InTurn.
func Watch(ctx context.Context, log *slog.Logger, inTurn func(ctx context.Context, work func(context.Context) error) error) {
	if _, err := os.Stat(kubeadm.APIServerManifest); errors.Is(err, fs.ErrNotExist) {
		return
	}
	var told poll.Told
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		changed, err := pass(ctx, inTurn)
		if told.IsNew(ctx, err) {
			log.Warn("the API server of this node may not accept the tokens that the Installer names", "error", err)
		}
		if changed {
			log.Info("the file of kubernetes.oidc changed", "file", cluster.AuthenticationFile)
		}
		return pause
	})
}

// pass looks at the cluster once.
func pass(ctx context.Context, inTurn func(ctx context.Context, work func(context.Context) error) error) (changed bool, err error) {
	config, err := cluster.Config(kubeadm.AdminKubeconfig)
	if err != nil {
		return false, err
	}
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return false, err
	}
	direct := rest.CopyConfig(config)
	direct.Host = "https://" + net.JoinHostPort(admin.Address, cluster.APIPort)
	f := Follower{Client: admin.Client, InTurn: inTurn, Uses: func(ctx context.Context) (string, error) {
		return cluster.ReportedFile(ctx, direct, "authentication")
	}}
	return f.Pass(ctx)
}

// Pass writes the files if the ConfigMap has another login, and lets the API server read it if it does not yet. It reports whether it
// changed anything. While the cluster cannot be asked, everything stays. A cluster that lost the ConfigMap, such as one that was restored
// from before, accepts no tokens.
func (f Follower) Pass(ctx context.Context) (changed bool, err error) {
	ask, cancel := context.WithTimeout(ctx, speed.Patience(passTime))
	defer cancel()
	o, ok, err := Read(ask, f.Client)
	if err != nil {
		return false, err
	}
	known, err := f.Host.writeLogin(o)
	if err != nil {
		return false, err
	}
	_, err = os.Lstat(f.Host.Path(cluster.AuthenticationFile))
	if !ok && errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	text, err := Encode(o)
	if err != nil {
		return false, err
	}
	if err := f.Host.Check(); err != nil {
		return known, err
	}
	if changed, err = f.Host.Write(text); err != nil {
		return known, err
	}
	changed = changed || known
	pod, err := kubeadm.ReadServerPod(f.Host.Path(kubeadm.APIServerManifest))
	if err != nil {
		return changed, err
	}
	if _, reads := cluster.Authentication().NamedBy(pod.Spec.Containers[0].Command); reads {
		return changed, nil
	}
	return true, f.InTurn(ctx, f.restart)
}

// restart has the API server read the file from now on, and waits until it does.
func (f Follower) restart(ctx context.Context) error {
	if err := cluster.Authentication().Remember(ctx, f.Client); err != nil {
		return err
	}
	text, err := regularfile.ReadFile(f.Host.Path(cluster.AuthenticationFile))
	if err != nil {
		return err
	}
	if _, err := cluster.Authentication().Enable(f.Host.Path(kubeadm.APIServerManifest)); err != nil {
		return err
	}
	wait, stop := context.WithTimeoutCause(ctx, speed.Patience(restartTime), fmt.Errorf("the API server does not say that it uses %s; see its log", cluster.AuthenticationFile))
	defer stop()
	return poll.Until(wait, time.Second, nil, func(ctx context.Context) (bool, error) {
		used, err := f.Uses(ctx)
		return err == nil && used == Digest(text), nil
	})
}
