package rotation

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/operation/leader"
)

// insist repeats a request while the API is away.
func insist(ctx context.Context, client kubernetes.Interface, request func(context.Context, kubernetes.Interface) error) error {
	return leader.RetryDuringOutage(ctx, func(ctx context.Context) error { return request(ctx, client) })
}

// publish lets hosts that join trust what the stage trusts.
func (r *Rotation) publish(ctx context.Context) error {
	p, ok := r.state.Part(authority.Cluster)
	if !ok {
		return nil
	}
	client, err := r.client()
	if err != nil {
		return err
	}
	return insist(ctx, client, func(ctx context.Context, client kubernetes.Interface) error {
		maps := client.CoreV1().ConfigMaps(metav1.NamespacePublic)
		info, err := maps.Get(ctx, "cluster-info", metav1.GetOptions{})
		if apierrors.IsNotFound(err) { // it was removed: nobody joins by it
			return nil
		}
		if err != nil {
			return err
		}
		config, err := clientcmd.Load([]byte(info.Data["kubeconfig"]))
		if err != nil {
			return fmt.Errorf("ConfigMap kube-public/cluster-info: %w", err)
		}
		for _, c := range config.Clusters {
			c.CertificateAuthorityData = p.Bundle(r.state.Stage)
		}
		text, err := clientcmd.Write(*config)
		if err != nil || string(text) == info.Data["kubeconfig"] {
			return err
		}
		info.Data["kubeconfig"] = string(text)
		_, err = maps.Update(ctx, info, metav1.UpdateOptions{})
		return err
	})
}

// tokens lets the cluster make the tokens again that Secrets have, if the old key signed them. An API server accepts such a token
// only while its Secret has it, so copies of it end.
func (r *Rotation) tokens(ctx context.Context) error {
	p, ok := r.state.Part(authority.ServiceAccounts)
	if !ok {
		return nil
	}
	old, err := keyID(p.Old)
	if err != nil {
		return err
	}
	made := metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)}
	return r.patchSecrets(ctx, made, "another token: copies of the old one end", func(s *corev1.Secret) (data map[string][]byte) {
		if signedBy(s.Data[corev1.ServiceAccountTokenKey]) != old {
			return nil
		}
		return map[string][]byte{corev1.ServiceAccountTokenKey: nil}
	})
}

// serving gives the servers in the cluster whose certificates the old CA signed certificates of the new one.
func (r *Rotation) serving(ctx context.Context) error {
	p, ok := r.state.Part(authority.Cluster)
	if !ok {
		return nil
	}
	return r.patchSecrets(ctx, metav1.ListOptions{LabelSelector: pki.ServingLabel}, "a certificate of the new CA", func(s *corev1.Secret) (data map[string][]byte) {
		data, changed, err := pki.Renewed(s, p, r.state.Stage)
		if err != nil {
			fmt.Fprintf(r.Log, "its certificate stays as it is: %v\n", err) // another program replaced what is in it
		}
		if err != nil || !changed {
			return nil
		}
		return data
	})
}

// patchSecrets gives listed Secrets the data that change returns: a nil map leaves a Secret as it is, a nil value removes its key. gets says
// what a Secret gets.
func (r *Rotation) patchSecrets(ctx context.Context, which metav1.ListOptions, gets string, change func(*corev1.Secret) map[string][]byte) error {
	client, err := r.client()
	if err != nil {
		return err
	}
	return insist(ctx, client, func(ctx context.Context, client kubernetes.Interface) error {
		list, err := client.CoreV1().Secrets(metav1.NamespaceAll).List(ctx, which)
		if err != nil {
			return err
		}
		for _, s := range list.Items {
			data := change(&s)
			if data == nil {
				continue
			}
			patch, err := json.Marshal(map[string]any{"data": data})
			if err != nil {
				return err
			}
			if _, err := client.CoreV1().Secrets(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			fmt.Fprintf(r.Log, "Secret %s/%s gets %s\n", s.Namespace, s.Name, gets)
		}
		return nil
	})
}

// keyID is the ID of a service-account key in tokens.
func keyID(public string) (string, error) {
	block, _ := pem.Decode([]byte(public))
	if block == nil {
		return "", errors.New("the old service-account key is not PEM")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), err
}

// signedBy is the ID of the key that signed a token; "" for text that is not a token.
func signedBy(token []byte) string {
	head, _, _ := strings.Cut(string(token), ".")
	text, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return ""
	}
	var header struct {
		KID string `json:"kid"`
	}
	if json.Unmarshal(text, &header) != nil {
		return ""
	}
	return header.KID
}
