// Package oidc lets people log in to a cluster with tokens of OpenID Connect issuers: the API servers' file of structured authentication,
// the bindings of groups, and a check of issuers from this host.
//
// The Installer's kubernetes.oidc lies in a ConfigMap of the cluster. The agent of each control plane writes it into a file, which the API
// server reads again by itself. The package never sees a token, and keeps no secret. Certificates and service accounts work without it.
package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/kube/ensure"
	"github.com/sealift/sealift/spec"
)

// ConfigMap in kube-system has kubernetes.oidc of the Installer, as JSON below configKey; empty if the Installer has none any more. A
// cluster that never had it has no ConfigMap.
const (
	ConfigMap = "sealift-oidc"
	configKey = "oidc.json"
)

// Encode writes the file that API servers read. The same login gives the same bytes; nil is a file that accepts no tokens.
func Encode(o *spec.OIDC) ([]byte, error) {
	config := apiserverv1.AuthenticationConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "AuthenticationConfiguration"},
		JWT:      []apiserverv1.JWTAuthenticator{},
	}
	if o == nil {
		return yaml.Marshal(config)
	}
	for _, i := range o.Issuers {
		config.JWT = append(config.JWT, apiserverv1.JWTAuthenticator{
			Issuer: apiserverv1.Issuer{URL: i.URL, Audiences: i.Audiences, AudienceMatchPolicy: apiserverv1.AudienceMatchPolicyMatchAny, CertificateAuthority: i.CACertificate},
			ClaimMappings: apiserverv1.ClaimMappings{
				Username: apiserverv1.PrefixedClaimOrExpression{Claim: i.Claims.Username, Prefix: &i.Claims.UsernamePrefix},
				Groups:   apiserverv1.PrefixedClaimOrExpression{Claim: i.Claims.Groups, Prefix: &i.Claims.GroupsPrefix},
			},
			UserValidationRules: reserved(),
		})
	}
	return yaml.Marshal(config)
}

// reserved refuses people whose issuer gives them a name or a group of the cluster: see spec.ReservedName.
func reserved() []apiserverv1.UserValidationRule {
	free := func(name string) string {
		var terms []string
		for _, prefix := range spec.ReservedPrefixes() {
			terms = append(terms, "!"+name+".startsWith('"+prefix+"')")
		}
		return strings.Join(terms, " && ")
	}
	return []apiserverv1.UserValidationRule{
		{Expression: free("user.username"), Message: spec.ReservedNames},
		{Expression: "user.groups.all(group, " + free("group") + ")", Message: spec.ReservedNames},
	}
}

// Decode reads the issuers of a file that Encode wrote; nil if it has none. Bindings of groups are not in it.
func Decode(text []byte) (*spec.OIDC, error) {
	var config apiserverv1.AuthenticationConfiguration
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return nil, err
	}
	o := &spec.OIDC{}
	for _, j := range config.JWT {
		i := spec.Issuer{URL: j.Issuer.URL, Audiences: j.Issuer.Audiences, CACertificate: j.Issuer.CertificateAuthority}
		i.Claims.Username, i.Claims.Groups = j.ClaimMappings.Username.Claim, j.ClaimMappings.Groups.Claim
		if username, groups := j.ClaimMappings.Username.Prefix, j.ClaimMappings.Groups.Prefix; username != nil && groups != nil {
			i.Claims.UsernamePrefix, i.Claims.GroupsPrefix = *username, *groups
		}
		o.Issuers = append(o.Issuers, i)
	}
	if len(o.Issuers) == 0 {
		return nil, nil
	}
	return o, nil
}

// WithCA returns the login with the content of each caFile of this host as its caCertificate.
func WithCA(o *spec.OIDC) (*spec.OIDC, error) {
	if o == nil {
		return nil, nil
	}
	whole := *o
	whole.Issuers = nil
	for n, i := range o.Issuers {
		if i.CAFile != "" {
			text, err := regularfile.ReadFile(i.CAFile)
			if err != nil {
				return nil, fmt.Errorf("kubernetes.oidc.issuers[%d].caFile: %w", n, err)
			}
			i.CACertificate, i.CAFile = string(text), ""
		}
		whole.Issuers = append(whole.Issuers, i)
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return nil, err
	}
	return spec.ParseOIDC(text) // a file may have anything in it
}

// Read returns the login of a cluster. ok reports whether the cluster has or had one: its API servers may read the file.
func Read(ctx context.Context, client kubernetes.Interface) (o *spec.OIDC, ok bool, err error) {
	found, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err == nil {
		o, err = spec.ParseOIDC([]byte(found.Data[configKey]))
	}
	if err != nil {
		return nil, false, fmt.Errorf("ConfigMap %s/%s: %w", metav1.NamespaceSystem, ConfigMap, err)
	}
	return o, true, nil
}

// File returns the file as API servers of a cluster read it; "" if they need none.
func File(ctx context.Context, client kubernetes.Interface) (string, error) {
	o, ok, err := Read(ctx, client)
	if err != nil || !ok {
		return "", err
	}
	text, err := Encode(o)
	return string(text), err
}

// Apply gives a cluster a login, and the bindings of its groups; nil takes both away. Agents of control planes follow.
func Apply(ctx context.Context, client kubernetes.Interface, o *spec.OIDC) error {
	text := ""
	if o != nil {
		whole, err := json.Marshal(o)
		if err != nil {
			return err
		}
		text = string(whole)
		empty := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ConfigMap}}
		if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(ctx, empty, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	err := ensure.EditConfigMap(ctx, client.CoreV1(), metav1.NamespaceSystem, ConfigMap, func(data map[string]string) (bool, error) {
		changed := data[configKey] != text
		data[configKey] = text
		return changed, nil
	})
	if err != nil && !(o == nil && apierrors.IsNotFound(err)) {
		return err
	}
	return bind(ctx, client, o)
}

// Host is a control plane, by its files.
type Host struct{ files.Host }

// Write replaces the file of this host, and reports whether it had another content.
func (h Host) Write(text []byte) (changed bool, err error) {
	return h.write(cluster.AuthenticationFile, text)
}

// writeLogin keeps the whole login for the console of this host, which works while the cluster is down. Without a login, there is no file.
func (h Host) writeLogin(o *spec.OIDC) (changed bool, err error) {
	if o == nil {
		_, err := os.Lstat(h.Path(node.LoginFile))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return true, files.Remove(h.Path(node.LoginFile))
	}
	text, err := json.Marshal(o)
	if err != nil {
		return false, err
	}
	return h.write(node.LoginFile, text)
}

func (h Host) write(name string, text []byte) (changed bool, err error) {
	path := h.Path(name)
	was, err := regularfile.ReadFile(path)
	if err == nil && string(was) == string(text) {
		return false, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := files.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	return true, files.WriteMode(path, 0o600, text)
}

// Check refuses an API server that logs people in by flags of its own, with which it would not start. A host that has none passes.
func (h Host) Check() error {
	pod, err := kubeadm.ReadServerPod(h.Path(kubeadm.APIServerManifest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	server := kubeadm.Args(pod.Spec.Containers[0].Command)
	if path, ok := cluster.Authentication().NamedBy(server); ok && path != cluster.AuthenticationFile {
		return fmt.Errorf("the API server has --authentication-config=%s, which Sealift did not create; remove that flag from %s and from kubeadm's configuration of the cluster", path, kubeadm.APIServerManifest)
	}
	for _, flag := range []string{"oidc-issuer-url", "oidc-client-id"} {
		if _, ok := server.Get(flag); ok {
			return fmt.Errorf("the API server has --%s, which excludes kubernetes.oidc; remove the --oidc flags from %s and from kubeadm's configuration of the cluster", flag, kubeadm.APIServerManifest)
		}
	}
	return nil
}

// Digest returns the hash by which an API server names the content of the file.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
