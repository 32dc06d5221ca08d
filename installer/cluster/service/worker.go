package service

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8s "k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/cluster/token"
	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/installer/host/redact"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/spec"
)

// workerInstaller is the part of an Installer that a worker needs to join: the add-ons with their versions; the options of Kubernetes,
// of the container runtime, and of add-ons with a join hook; and the settings of hosts. Options that are called as secrets are left
// out. A proxy and the settings of containerd are not changed: a worker cannot fetch images without them.
func workerInstaller(root string, text []byte) (string, error) {
	whole, err := spec.Parse("Installer of the cluster", strings.NewReader(string(text)))
	if err != nil {
		return "", err
	}
	part := *whole
	part.AddOns = slices.Clone(whole.AddOns)
	for n, a := range part.AddOns {
		needed, err := joinsWithOptions(root, a)
		if err != nil {
			return "", err
		}
		part.AddOns[n].Options = nil
		if needed {
			part.AddOns[n].Options, _ = redact.WithoutSecrets(map[string]any(a.Options), nil).(map[string]any)
		}
	}
	part.Sections = nil
	for _, s := range whole.Sections {
		if s.Key != "helm" { // charts are the business of control planes
			s.Options, _ = redact.WithoutSecrets(map[string]any(s.Options), nil).(map[string]any)
			part.Sections = append(part.Sections, s)
		}
	}
	out, err := part.Canonical()
	return string(out), err
}

// joinsWithOptions reports whether a host that joins needs the options of an add-on.
func joinsWithOptions(root string, a spec.AddOn) (bool, error) {
	if slices.Contains([]string{"kubernetes", "containerd", "docker"}, a.Name) {
		return true, nil
	}
	name := path.Join(bundle.AddOnDir(a.Name, a.Version), "install.sh")
	f, err := regularfile.Open(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return false, fmt.Errorf("the hooks of %s: %w", a.Name, err)
	}
	defer f.Close()
	hooks, err := hook.Functions(name, f)
	return slices.Contains(hooks, a.Name+"_join"), err
}

// holdsCertificateKey checks that the key decrypts the certificates that kubeadm has stored in the cluster for joining control
// planes.
func holdsCertificateKey(ctx context.Context, client k8s.Interface, key string) error {
	switch holds, err := cluster.HoldsCertificateKey(ctx, client, key); {
	case err != nil:
		return fmt.Errorf("%w: the cluster has no certificates for control planes that join: %w", share.ErrCertificateKey, err)
	case !holds:
		return share.ErrCertificateKey
	}
	return nil
}

// isToken checks that a token is one of the cluster's.
func isToken(ctx context.Context, client k8s.Interface, whole string) error {
	err := token.Verify(ctx, client, whole)
	if errors.Is(err, token.ErrUnknown) {
		return share.ErrToken
	}
	return err
}

// isNode checks that the cluster has a node, to which a certificate belongs that is valid since a time. The node's role is not asked
// for: see package identity.
func isNode(ctx context.Context, client k8s.Interface, name string, since time.Time) error {
	_, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return share.ErrMember
	}
	if err != nil {
		return err
	}
	removed, err := cluster.RemovedNodes(ctx, client)
	if err == nil && !removed[name].Takes(since) {
		err = fmt.Errorf("%w: it was removed, and the certificate is older than that", share.ErrMember)
	}
	return err
}
