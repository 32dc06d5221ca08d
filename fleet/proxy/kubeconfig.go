package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/helm/source"
)

// kubeconfig reads how to reach a cluster (C-18).
func kubeconfig(ctx context.Context, c client.Reader, namespace, cluster string) (*rest.Config, error) {
	text, err := secret(ctx, c, namespace, cluster+"-kubeconfig", "value")
	if err != nil {
		return nil, err
	}
	config, err := readKubeconfig(text)
	if err != nil {
		return nil, fmt.Errorf("secret %s/%s-kubeconfig: %w", namespace, cluster, err)
	}
	return config, nil
}

// readKubeconfig refuses what would run or read something here, with the hub's rights. Errors do not quote it.
func readKubeconfig(text []byte) (*rest.Config, error) {
	file, err := clientcmd.Load(text)
	if err != nil {
		return nil, errors.New("its value is not a kubeconfig")
	}
	for _, user := range file.AuthInfos {
		switch {
		case user.Exec != nil:
			return nil, errors.New("it runs a program (exec): write a token or a certificate into it")
		case user.AuthProvider != nil:
			return nil, errors.New("it has an auth-provider: write a token or a certificate into it")
		case user.ClientCertificate != "", user.ClientKey != "", user.TokenFile != "":
			return nil, errors.New("it names files: write their content into it")
		}
	}
	for _, c := range file.Clusters {
		if c.CertificateAuthority != "" {
			return nil, errors.New("it names files: write their content into it")
		}
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*file, file.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil || config.Host == "" || !named(file) {
		return nil, errors.New("it has no current context with a cluster and a user")
	}
	config.QPS = -1 // the server has its own fairness
	return config, nil
}

// named reports whether the current context has a cluster and a user. Without them, client-go would use its environment.
func named(file *clientcmdapi.Config) bool {
	current := file.Contexts[file.CurrentContext]
	return current != nil && file.Clusters[current.Cluster] != nil && file.AuthInfos[current.AuthInfo] != nil
}

func secret(ctx context.Context, c client.Reader, namespace, name, key string) ([]byte, error) {
	var s corev1.Secret
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &s); err != nil {
		return nil, err
	}
	if len(s.Data[key]) == 0 {
		return nil, fmt.Errorf("secret %s/%s has no key %s", namespace, name, key)
	}
	return s.Data[key], nil
}

// credentials reads the passwords for a chart's repository.
func credentials(ctx context.Context, c client.Reader, hrp *caaph.HelmReleaseProxy, allowed []string, into *source.Access) (err error) {
	if at := hrp.Spec.Credentials; at != nil {
		into.Credentials, err = referredSecret(ctx, c, hrp, at.Secret, at.Key, allowed)
	}
	return err
}

// authority reads the certificate authority of a chart's repository.
func authority(ctx context.Context, c client.Reader, hrp *caaph.HelmReleaseProxy, allowed []string, into *source.Access) (err error) {
	if t := hrp.Spec.TLSConfig; t != nil {
		into.Insecure = t.InsecureSkipTLSVerify
		if t.CASecret != nil {
			into.CA, err = referredSecret(ctx, c, hrp, *t.CASecret, "ca.crt", allowed)
		}
	}
	return err
}

// referredSecret reads a Secret of the proxy's namespace, or of one that the operator allows.
func referredSecret(ctx context.Context, c client.Reader, hrp *caaph.HelmReleaseProxy, at corev1.SecretReference, key string, allowed []string) ([]byte, error) {
	if at.Namespace == "" {
		at.Namespace = hrp.Namespace
	}
	if at.Namespace != hrp.Namespace && !slices.Contains(allowed, at.Namespace) {
		return nil, fmt.Errorf("secret %s/%s is in another namespace, which the operator of the hub has not allowed", at.Namespace, at.Name)
	}
	return secret(ctx, c, at.Namespace, at.Name, key)
}
