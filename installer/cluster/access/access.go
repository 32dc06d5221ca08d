// Package access issues kubeconfigs to people: client certificates of the cluster's CA for a name and groups, which end. It also lists them.
//
// A certificate proves who somebody is. What that person may do is up to the bindings of names and groups in the cluster; the package makes
// none. Kubernetes cannot revoke a client certificate.
package access

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube/ensure"
	"github.com/sealift/sealift/spec"
)

// The bounds of a kubeconfig's validity. Kubernetes grants at least ten minutes, and by default at most a year.
const (
	MinValid = 10 * time.Minute
	MaxValid = 366 * 24 * time.Hour
)

// list is the ConfigMap in kube-system with the issued certificates: by serial number, an Issued in JSON. It has no secrets.
const list = "sealift-kubeconfigs"

// signing is how long the controller manager gets for a certificate.
const signing = time.Minute

// maxName is the longest name of a person or group, in bytes (X.520, ub-common-name and ub-organization-name).
const maxName = 64

// Request says who gets a kubeconfig.
type Request struct {
	Name   string
	Groups []string
	Valid  time.Duration
}

// Issued is a certificate that was given out.
type Issued struct {
	Name   string    `json:"name"`
	Groups []string  `json:"groups,omitempty"`
	Serial string    `json:"serial"` // in hex
	Issuer string    `json:"issuer"`
	Begin  time.Time `json:"begin"`
	End    time.Time `json:"end"`
}

// Cluster is what a kubeconfig says about the cluster.
type Cluster struct {
	Name   string
	Server string // URL
	CA     []byte // PEM
}

// Check refuses names that Kubernetes or Sealift give a meaning of their own: nodes, control planes, controllers, kubeadm:cluster-admins, which
// kubeadm binds to cluster-admin, and system:masters, which no binding can take a right from.
func (r Request) Check() error {
	for _, name := range append([]string{r.Name}, r.Groups...) {
		switch {
		case name == "" || len(name) > maxName:
			return fmt.Errorf("%q is not a name of a person or a group: it has between 1 and %d bytes", name, maxName)
		case strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsGraphic(c) || c == unicode.ReplacementChar }):
			return fmt.Errorf("%q is not a name of a person or a group: it has characters that cannot be seen", name)
		case spec.ReservedName(name):
			return fmt.Errorf("%q is not given out: %s; bind a ClusterRole, such as cluster-admin, to a group of your own", name, spec.ReservedNames)
		}
	}
	if r.Valid < MinValid || r.Valid > MaxValid {
		return fmt.Errorf("a kubeconfig is valid for 10 minutes to 366 days, not for %s", r.Valid)
	}
	return nil
}

// Issue lets the cluster sign a certificate for a new key, notes it, and returns a kubeconfig with both. The certificate may end earlier
// than requested: the controller manager has the last word.
func Issue(ctx context.Context, client kubernetes.Interface, to Cluster, r Request) (kubeconfig []byte, issued Issued, err error) {
	if err := r.Check(); err != nil {
		return nil, Issued{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, Issued{}, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, Issued{}, fmt.Errorf("encode the key: %w", err)
	}
	chain, err := sign(ctx, client, key, r)
	if err != nil {
		return nil, Issued{}, fmt.Errorf("certificate for %s: %w", r.Name, err)
	}
	cert, err := verify(chain, key, to.CA, r)
	if err != nil {
		return nil, Issued{}, fmt.Errorf("certificate for %s: %w", r.Name, err)
	}
	issued = Issued{Name: r.Name, Groups: cert.Subject.Organization, Serial: fmt.Sprintf("%x", cert.SerialNumber), Issuer: cert.Issuer.String(), Begin: cert.NotBefore, End: cert.NotAfter}
	if err := note(ctx, client, issued); err != nil {
		return nil, Issued{}, fmt.Errorf("note the kubeconfig of %s, so that 'sealift certs' lists it: %w", r.Name, err)
	}
	context := r.Name + "@" + to.Name
	kubeconfig, err = clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{to.Name: {Server: to.Server, CertificateAuthorityData: to.CA}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{r.Name: {ClientCertificateData: chain, ClientKeyData: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})}},
		Contexts:       map[string]*clientcmdapi.Context{context: {Cluster: to.Name, AuthInfo: r.Name}},
		CurrentContext: context,
	})
	if err != nil {
		return nil, Issued{}, fmt.Errorf("write the kubeconfig: %w", err)
	}
	return kubeconfig, issued, nil
}

// sign requests a certificate, approves the request and waits for the signer. The request is deleted at the end.
func sign(ctx context.Context, client kubernetes.Interface, key *ecdsa.PrivateKey, r Request) (chain []byte, err error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: r.Name, Organization: r.Groups}}, key)
	if err != nil {
		return nil, err
	}
	seconds := int32(r.Valid.Seconds())
	requests := client.CertificatesV1().CertificateSigningRequests()
	made, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "sealift-kubeconfig-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: certificatesv1.KubeAPIServerClientSignerName,
			ExpirationSeconds: &seconds, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	defer func() {
		// Also after an interrupt: an approved request that nobody waits for would still be signed.
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer stop()
		if gone := requests.Delete(ctx, made.Name, metav1.DeleteOptions{}); gone != nil && !apierrors.IsNotFound(gone) {
			err = errors.Join(err, gone)
		}
	}()
	made.Status.Conditions = append(made.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "SealiftKubeconfig", Message: "an administrator ran sealift kubeconfig",
	})
	if _, err := requests.UpdateApproval(ctx, made.Name, made, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	wait, stop := context.WithTimeoutCause(ctx, signing, errors.New("the cluster's controller manager has not signed it within a minute; is it running?"))
	defer stop()
	err = poll.Until(wait, time.Second/2, nil, func(ctx context.Context) (bool, error) {
		now, err := requests.Get(ctx, made.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range now.Status.Conditions {
			if c.Type == certificatesv1.CertificateFailed || c.Type == certificatesv1.CertificateDenied {
				return false, fmt.Errorf("the cluster did not sign it: %s", cmp.Or(c.Message, c.Reason))
			}
		}
		chain = now.Status.Certificate
		return len(chain) > 0, nil
	})
	return chain, err
}

// verify returns the certificate of a chain if the cluster's CA signed it for what was requested.
func verify(chain []byte, key *ecdsa.PrivateKey, ca []byte, r Request) (*x509.Certificate, error) {
	block, _ := pem.Decode(chain)
	if block == nil {
		return nil, errors.New("the cluster's answer is not a certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("the CA of the cluster is not a certificate")
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return nil, err
	}
	got, wanted := slices.Sorted(slices.Values(cert.Subject.Organization)), slices.Sorted(slices.Values(r.Groups))
	if !key.PublicKey.Equal(cert.PublicKey) || cert.Subject.CommonName != r.Name || !slices.Equal(got, wanted) {
		return nil, fmt.Errorf("the cluster signed another one, for %s", cert.Subject)
	}
	return cert, nil
}

// note adds a certificate to the list, and drops those that have ended.
func note(ctx context.Context, client kubernetes.Interface, issued Issued) error {
	text, err := json.Marshal(issued)
	if err != nil {
		return err
	}
	empty := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: list}}
	if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(ctx, empty, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return ensure.EditConfigMap(ctx, client.CoreV1(), metav1.NamespaceSystem, list, func(data map[string]string) (bool, error) {
		maps.DeleteFunc(data, func(_, text string) bool {
			var old Issued
			return json.Unmarshal([]byte(text), &old) == nil && old.End.Before(time.Now())
		})
		data[issued.Serial] = string(text)
		return true, nil
	})
}

// List returns what was issued and has not been dropped since, by name and end. Entries that cannot be read are named in problems.
func List(ctx context.Context, client kubernetes.Interface) (all []Issued, problems []string, err error) {
	now, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, list, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for serial, text := range now.Data {
		var one Issued
		if err := json.Unmarshal([]byte(text), &one); err != nil || one.Name == "" {
			problems = append(problems, fmt.Sprintf("entry %q of the ConfigMap %s/%s is damaged", serial, metav1.NamespaceSystem, list))
			continue
		}
		all = append(all, one)
	}
	slices.Sort(problems)
	slices.SortStableFunc(all, func(a, b Issued) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.End.Compare(b.End), cmp.Compare(a.Serial, b.Serial))
	})
	return all, problems, nil
}
