package install

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/host/files"
)

// certificate writes the Secret of a server in the cluster into a file: its namespace and name, the file, and the server's names.
func (i *Install) certificate(ctx context.Context, args []string, _ io.Writer) error {
	if len(args) < 4 {
		return fmt.Errorf("certificate: %d arguments given, at least 4 wanted", len(args))
	}
	server := pki.Server{Namespace: args[0], Secret: args[1], Names: args[3:]}
	client, err := cluster.Client(kubeadm.AdminKubeconfig)
	if err != nil {
		return err
	}
	var old *corev1.Secret
	found, err := client.CoreV1().Secrets(server.Namespace).Get(ctx, server.Secret, metav1.GetOptions{})
	if err == nil {
		old = found
	} else if !apierrors.IsNotFound(err) {
		return fmt.Errorf("the Secret %s/%s: %w", server.Namespace, server.Secret, err)
	}
	secret, err := server.Certificate("", old, time.Now())
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(secret)
	if err != nil {
		return err
	}
	return files.WriteMode(args[2], 0o600, text)
}
