package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/leader"
	"github.com/sealift/sealift/kube"
)

// Prepare looks at the keys of this control plane, and at what a rotation would do. It changes nothing. Close must be called.
func Prepare(ctx context.Context, o Options) (_ *Rotation, err error) {
	r := &Rotation{pause: usePause}
	answers := func(ctx context.Context, site *operation.Site) (*rest.Config, error) {
		if err := r.host.CheckKeys(); err != nil {
			return nil, err
		}
		if err := cluster.WaitAPI(ctx, site.Log); err != nil {
			return nil, err
		}
		return cluster.Config(kubeadm.AdminKubeconfig)
	}
	if r.site, err = operation.Open(ctx, &o.Scope, Kind, answers); err != nil {
		return nil, err
	}
	r.Session, r.nodes = r.site.Session, r.site.Nodes(operation.Say(r.site.Log))
	c := controlPlanes{r.site}
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	r.servers = c
	if err = r.Lock(); err != nil {
		return nil, err
	}
	if err := r.begin(ctx, r.site.Records(), r.site.Own, time.Now()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// usePause is the time between two looks at the keys that an API server uses.
const usePause = 2 * time.Second

// Run rotates, while no upgrade and no renewal of certificates runs. It calls waiting with the host that runs one.
func (r *Rotation) Run(ctx context.Context, waiting func(holder string), observe func(lifecycle.Event)) error {
	return r.site.Lead(ctx, r.run, waiting, observe)
}

// controlPlanes are the API servers of this host's cluster.
type controlPlanes struct{ *operation.Site }

// check refuses a cluster with a control plane that could not take its part.
func (c controlPlanes) check(ctx context.Context) error {
	nodes, err := c.View.Nodes(ctx)
	if err != nil {
		return err
	}
	_, noBundle := os.Stat(filepath.Join(c.Root, bundle.IndexName))
	for _, n := range nodes {
		switch {
		case !n.ControlPlane():
		case n.Name != c.Own && errors.Is(noBundle, fs.ErrNotExist): // see package service
			return fmt.Errorf("this node was adopted, and gives nothing to control plane %s before its first upgrade; run 'sealift upgrade' first", n.Name)
		case !n.Ready:
			return fmt.Errorf("control plane %s is not Ready (%s), and would not get the new key; bring it back, or remove it with 'sealift node remove %s'", n.Name, n.Why, n.Name)
		case cluster.TooOldToEncrypt(strings.TrimPrefix(n.Version, "v")):
			return fmt.Errorf("control plane %s runs Kubernetes %s, whose API server does not report the keys that it uses; upgrade the cluster first", n.Name, n.Version)
		}
	}
	return nil
}

// Uses implements Servers. It asks the API server itself, and no balancer.
func (c controlPlanes) Uses(ctx context.Context, name string) (string, error) {
	n, err := c.View.OwnNode(ctx, name)
	if err != nil {
		return "", err
	}
	direct := rest.CopyConfig(c.Config)
	direct.Host = "https://" + net.JoinHostPort(n.Address, cluster.APIPort)
	return cluster.ReportedFile(ctx, direct, "encryption")
}

// Rewrite implements Servers.
func (c controlPlanes) Rewrite(ctx context.Context) error {
	return rewrite(ctx, c.Admin.Client, c.Log)
}

// rewritePage is the number of Secrets in one request. Each has at most 1 MiB.
const rewritePage = 50

// rewrite writes each Secret unchanged. The API server writes it to etcd if it is not encrypted with the first key there. Each
// request is repeated by itself while the API is away, so that the number of Secrets does not matter.
func rewrite(ctx context.Context, client kubernetes.Interface, output io.Writer) error {
	written := 0
	for next := ""; ; {
		page, err := listSecrets(ctx, client, next)
		if err != nil {
			return fmt.Errorf("list Secrets: %w", err)
		}
		for _, s := range page.Items {
			err := leader.RetryDuringOutage(ctx, func(ctx context.Context) error {
				_, err := client.CoreV1().Secrets(s.Namespace).Update(ctx, &s, metav1.UpdateOptions{})
				if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // somebody else has written it just now, or removed it
					return nil
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("write Secret %s/%s again: %w", s.Namespace, s.Name, err)
			}
			written++
		}
		if next = page.Continue; next == "" {
			fmt.Fprintf(output, "%d Secrets written again\n", written)
			return nil
		}
	}
}

// listSecrets asks for one page. If the list has become too old, it goes on in a newer one, as the API server offers it.
func listSecrets(ctx context.Context, client kubernetes.Interface, next string) (page *corev1.SecretList, err error) {
	err = leader.RetryDuringOutage(ctx, func(ctx context.Context) (err error) {
		page, err = client.CoreV1().Secrets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: rewritePage, Continue: next})
		var status apierrors.APIStatus
		if apierrors.IsResourceExpired(err) && errors.As(err, &status) {
			next = status.Status().Continue
			return kube.NotYet(err)
		}
		return err
	})
	return page, err
}

// Values implements Servers.
func (c controlPlanes) Values(ctx context.Context, see func(key, value []byte) error) error {
	return cluster.EtcdValues(ctx, cluster.EtcdAddress{}, secretsPrefix, see)
}

// Remember implements Servers.
func (c controlPlanes) Remember(ctx context.Context) error {
	return leader.RetryDuringOutage(ctx, func(ctx context.Context) error { return cluster.Encryption().Remember(ctx, c.Admin.Client) })
}
