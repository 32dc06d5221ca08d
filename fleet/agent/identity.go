package agent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/registration"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube/ensure"
)

// identityLabel marks the Secrets on the cluster that have the identities of add-ons' agents. Its value is the add-on.
const identityLabel = "fleet.sealift.dev/identity-of"

// requestTimeout is how long the agent waits for a certificate before it requests another one.
const requestTimeout = 5 * time.Minute

// pendingRequest is a pending request for a certificate. Only memory has its key: a killed agent makes a new request.
type pendingRequest struct {
	key *ecdsa.PrivateKey
	at  time.Time
	who ocm.RegistrationInfo
}

// identities requests identities on the hub for the agents of add-ons, and renews them, until ctx ends (O-34, O-35). Keys never
// leave the cluster.
func (a *agent) identities(ctx context.Context) error {
	cfg, http := a.cluster.Config()
	hub, err := kubernetes.NewForConfigAndClient(cfg, http)
	if err != nil {
		return err
	}
	waiting := make(map[string]pendingRequest)
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		if err := a.identify(ctx, hub, waiting); err != nil && ctx.Err() == nil {
			a.Log.WarnContext(ctx, "the agents of add-ons did not get their identities on the hub", "error", err)
		}
		pause := a.Look
		if len(waiting) == 0 {
			pause = max(pause, cmp.Or(a.Heartbeat, time.Minute))
		}
		return pause
	})
	return ctx.Err()
}

// identify checks all identities once. A failure of one does not affect the others.
func (a *agent) identify(ctx context.Context, hub kubernetes.Interface, waiting map[string]pendingRequest) error {
	var list ocm.List[ocm.ManagedClusterAddOn]
	if err := a.hub.List(ctx, &list, client.InNamespace(a.Cluster)); err != nil {
		return fmt.Errorf("read the add-ons of the cluster: %w", err)
	}
	wanted := make(map[types.NamespacedName]bool)
	var errs []error
	for i := range list.Items {
		addOn := &list.Items[i]
		if !usesTemplate(addOn) {
			continue // the agents of other add-ons get theirs from their managers
		}
		for _, r := range addOn.Status.Registrations {
			wanted[types.NamespacedName{Namespace: namespaceOf(addOn), Name: secretOf(addOn.Name, r.SignerName)}] = true
			if !addOn.DeletionTimestamp.IsZero() {
				continue // it may need its Secret until it is gone
			}
			if err := a.ensure(ctx, hub, waiting, addOn, r); err != nil {
				errs = append(errs, fmt.Errorf("add-on %s, signer %s: %w", addOn.Name, r.SignerName, err))
			}
		}
	}
	secrets, err := a.reader.CoreV1().Secrets("").List(ctx, metav1.ListOptions{LabelSelector: identityLabel})
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, s := range secrets.Items {
		if !wanted[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] {
			errs = append(errs, client.IgnoreNotFound(a.reader.CoreV1().Secrets(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})))
		}
	}
	return errors.Join(errs...)
}

// usesTemplate reports whether the hub renders an add-on.
func usesTemplate(a *ocm.ManagedClusterAddOn) bool {
	return slices.ContainsFunc(a.Status.ConfigReferences, func(r ocm.StoredReference) bool {
		return r.Group == ocm.AddOnVersion.Group && r.Resource == "addontemplates"
	})
}

// namespaceOf returns where the agent of an add-on runs.
func namespaceOf(a *ocm.ManagedClusterAddOn) string {
	return cmp.Or(a.Status.Namespace, a.Spec.InstallNamespace, ocm.DefaultInstallNamespace)
}

// secretOf names the Secret with an identity. AddOnTemplates mount it.
func secretOf(addOn, signer string) string {
	if signer == registration.KubeSigner {
		return addOn + "-hub-kubeconfig"
	}
	return addOn + "-" + strings.ReplaceAll(signer, "/", "-") + "-client-cert"
}

// ensure establishes one identity: it requests a certificate, or fetches the requested one.
func (a *agent) ensure(ctx context.Context, hub kubernetes.Interface, waiting map[string]pendingRequest, addOn *ocm.ManagedClusterAddOn, r ocm.RegistrationInfo) error {
	namespace := namespaceOf(addOn)
	name := secretOf(addOn.Name, r.SignerName)
	secret, err := a.reader.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err == nil && valid(secret.Data, r, time.Now()) {
		delete(waiting, name)
		if r.SignerName != registration.KubeSigner || secret.Labels[identityLabel] != addOn.Name {
			return nil
		}
		return a.describeAgain(ctx, secret, addOn.Name)
	}
	request, asks := waiting[name]
	if !asks || time.Since(request.at) > requestTimeout || !reflect.DeepEqual(request.who, r) {
		key, err := a.requestCertificate(ctx, hub, addOn.Name, r)
		if err != nil {
			return err
		}
		waiting[name] = pendingRequest{key, time.Now(), r}
		return nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(request.key)
	if err != nil {
		return err
	}
	data := map[string][]byte{
		corev1.TLSCertKey:       []byte(addOn.Certificate(r.SignerName).PEM),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}
	if !valid(data, r, time.Now()) {
		return nil // that is an older one
	}
	if r.SignerName == registration.KubeSigner {
		if err := a.describe(data, addOn.Name); err != nil {
			return err
		}
	}
	if err := a.keep(ctx, namespace, name, addOn.Name, data); err != nil {
		return err
	}
	delete(waiting, name)
	return nil
}

// requestCertificate makes a key, and a request for its certificate on the hub.
func (a *agent) requestCertificate(ctx context.Context, hub kubernetes.Interface, addOn string, r ocm.RegistrationInfo) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject(r)}, key)
	if err != nil {
		return nil, err
	}
	_, err = hub.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "addon-" + a.Cluster + "-" + addOn + "-", Labels: map[string]string{ocm.ClusterLabel: a.Cluster, ocm.AddOnLabel: addOn}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: r.SignerName, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask the hub for a certificate: %w", err)
	}
	return key, nil
}

func subject(r ocm.RegistrationInfo) pkix.Name {
	return pkix.Name{CommonName: r.Subject.User, Organization: r.Subject.Groups, OrganizationalUnit: r.Subject.OrganizationUnit}
}

// valid reports whether a Secret has a key and its certificate for an identity, and whether a fifth of its time is left.
func valid(data map[string][]byte, r ocm.RegistrationInfo, now time.Time) bool {
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return false
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil || now.Add(cert.NotAfter.Sub(cert.NotBefore)/5).After(cert.NotAfter) {
		return false
	}
	want := subject(r)
	same := func(a, b []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}
	return cert.Subject.CommonName == want.CommonName && same(cert.Subject.Organization, want.Organization) && same(cert.Subject.OrganizationalUnit, want.OrganizationalUnit)
}

// describe adds a kubeconfig for the hub. It names the files beside it.
func (a *agent) describe(data map[string][]byte, addOn string) error {
	ca := a.Hub.CAData
	if len(ca) == 0 && a.Hub.CAFile != "" {
		var err error
		if ca, err = os.ReadFile(a.Hub.CAFile); err != nil {
			return fmt.Errorf("read the certificate authority of the hub: %w", err)
		}
	}
	const hub = "hub"
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{hub: {Server: a.Hub.Host, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{addOn: {ClientCertificate: corev1.TLSCertKey, ClientKey: corev1.TLSPrivateKeyKey}},
		Contexts:       map[string]*clientcmdapi.Context{hub: {Cluster: hub, AuthInfo: addOn, Namespace: a.Cluster}},
		CurrentContext: hub,
	})
	data["kubeconfig"], data["cluster-name"], data["agent-name"] = text, []byte(a.Cluster), []byte(addOn+"-agent")
	return err
}

// describeAgain rewrites the kubeconfig of a valid identity, if the hub has another address or authority now.
func (a *agent) describeAgain(ctx context.Context, secret *corev1.Secret, addOn string) error {
	data := maps.Clone(secret.Data)
	if err := a.describe(data, addOn); err != nil || bytes.Equal(data["kubeconfig"], secret.Data["kubeconfig"]) {
		return err
	}
	secret.Data = data
	_, err := a.reader.CoreV1().Secrets(secret.Namespace).Update(ctx, secret, metav1.UpdateOptions{})
	return err
}

// keep writes the Secret of an identity, and its namespace.
func (a *agent) keep(ctx context.Context, namespace, name, addOn string, data map[string][]byte) error {
	if err := ensure.Namespace(ctx, a.reader.CoreV1(), namespace); err != nil {
		return err
	}
	secrets := a.reader.CoreV1().Secrets(namespace)
	had, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{identityLabel: addOn}}, Data: data}, metav1.CreateOptions{})
		return err
	}
	if err != nil || bytes.Equal(had.Data[corev1.TLSCertKey], data[corev1.TLSCertKey]) {
		return err
	}
	if had.Labels == nil {
		had.Labels = make(map[string]string)
	}
	had.Labels[identityLabel], had.Data = addOn, data
	_, err = secrets.Update(ctx, had, metav1.UpdateOptions{})
	return err
}
