package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/install"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/registration"
)

// cacheTimeout is how long a request waits for its add-on, and retry how often the hub looks for it.
const cacheTimeout, retry = 10 * time.Minute, 5 * time.Second

// certificates approves or refuses the requests of add-on agents, and signs them for custom signers (O-35, X-30). Those of
// Kubernetes are signed by kube-controller-manager. Agents may not read requests, since all clusters ask the same API: the hub
// hands certificates over in the namespace of their cluster.
func (c *controllers) certificates() error {
	return builder.ControllerManagedBy(c.hub).Named("certificate").
		For(&certificatesv1.CertificateSigningRequest{}).
		Complete(retryOnConflict(reconcile.Func(c.certify)))
}

func (c *controllers) certify(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var csr certificatesv1.CertificateSigningRequest
	if err := c.Get(ctx, req.NamespacedName, &csr); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	cluster, addOn := csr.Labels[ocm.ClusterLabel], csr.Labels[ocm.AddOnLabel]
	if cluster == "" || addOn == "" || has(csr, certificatesv1.CertificateDenied) || has(csr, certificatesv1.CertificateFailed) {
		return reconcile.Result{}, nil
	}
	var cma ocm.ClusterManagementAddOn
	a := &ocm.ManagedClusterAddOn{}
	err := errors.Join(client.IgnoreNotFound(c.Get(ctx, types.NamespacedName{Name: addOn}, &cma)),
		client.IgnoreNotFound(c.Get(ctx, types.NamespacedName{Namespace: cluster, Name: addOn}, a)))
	if err != nil {
		return reconcile.Result{}, err
	}
	if cma.Name != "" && (install.Unmanaged(cma.Annotations) || !inventory.UsesTemplate(&cma)) {
		return reconcile.Result{}, nil // its own manager answers
	}
	// the identities in the status prove nothing: the agent of the cluster may write them. The references to templates are the
	// hub's: an admission policy refuses others (package crd)
	wanted, known, err := c.registrations(ctx, a)
	if err != nil {
		return reconcile.Result{}, err
	}
	member, err := c.cluster(ctx, cluster)
	if err != nil {
		return reconcile.Result{}, err
	}
	accepted := member != nil && member.Spec.HubAcceptsClient
	if !accepted || cma.Name == "" || a.Name == "" || !known || len(a.Status.ConfigReferences) == 0 {
		if c.now().Sub(csr.CreationTimestamp.Time) > cacheTimeout {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{RequeueAfter: retry}, nil
	}
	again, err := c.answer(ctx, &csr, a, wanted)
	return reconcile.Result{RequeueAfter: again}, err
}

func has(csr certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Type == kind })
}

// answer takes the next step for a request: it refuses, approves or signs it, or hands over its certificate.
func (c *controllers) answer(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, a *ocm.ManagedClusterAddOn, wanted []ocm.Registration) (again time.Duration, err error) {
	request := registration.Request{Signer: csr.Spec.SignerName, Username: csr.Spec.Username, PEM: csr.Spec.Request}
	for _, usage := range csr.Spec.Usages {
		request.Usages = append(request.Usages, string(usage))
	}
	identities := registration.Identities(a.Namespace, a.Name, wanted)
	at := slices.IndexFunc(identities, func(i ocm.RegistrationInfo) bool { return i.SignerName == csr.Spec.SignerName })
	refused := registration.Check(wanted)
	switch {
	case refused != nil:
	case at < 0:
		refused = fmt.Errorf("add-on %s has no registration with signer %q", a.Name, csr.Spec.SignerName)
	default:
		refused = request.Verify(a.Namespace, identities[at])
	}
	switch approved := has(*csr, certificatesv1.CertificateApproved); {
	case refused != nil && approved:
		return 0, nil // the registration has changed since, or another approver was faster; it gets no further
	case refused != nil:
		return 0, c.conclude(ctx, csr, certificatesv1.CertificateDenied, "NotTheAgent", fmt.Sprintf("the agent of add-on %s on cluster %s may not have this certificate: %v", a.Name, a.Namespace, refused))
	case !approved:
		return 0, c.conclude(ctx, csr, certificatesv1.CertificateApproved, "AddOnAgent", fmt.Sprintf("the agent of add-on %s on cluster %s asks for its certificate", a.Name, a.Namespace))
	case len(csr.Status.Certificate) > 0:
		return 0, c.handOver(ctx, csr, a)
	case csr.Spec.SignerName == registration.KubeSigner:
		return 0, nil
	}
	at = slices.IndexFunc(wanted, func(w ocm.Registration) bool {
		return w.Type == ocm.CustomSigner && w.CustomSigner != nil && w.CustomSigner.SignerName == csr.Spec.SignerName
	})
	authority, err := c.authority(ctx, wanted[at].CustomSigner) // there is one: it was verified
	if err != nil {
		c.log.WarnContext(ctx, "a certificate cannot be signed", "request", csr.Name, "error", err)
		return cacheTimeout / 10, nil // condition RegistrationApplied of the add-on also says so
	}
	return 0, c.sign(ctx, csr, request, authority)
}

func (c *controllers) conclude(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType, reason, message string) error {
	after := csr.DeepCopy()
	after.Status.Conditions = append(after.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message,
	})
	c.log.InfoContext(ctx, "a request for a certificate is answered", "request", csr.Name, "answer", kind, "because", message)
	if err := c.SubResource("approval").Update(ctx, after); err != nil {
		return fmt.Errorf("answer request %s for signer %s: %w; 'sealift fleet hub --print-rbac --signer' gives the hub the right", csr.Name, csr.Spec.SignerName, err)
	}
	return nil
}

// sign signs a request for a custom signer.
func (c *controllers) sign(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, request registration.Request, authority *registration.Authority) (err error) {
	validity := registration.Validity
	if s := csr.Spec.ExpirationSeconds; s != nil {
		validity = min(validity, time.Duration(*s)*time.Second)
	}
	after := csr.DeepCopy()
	if after.Status.Certificate, err = authority.Sign(request, c.now(), validity); err != nil {
		return err
	}
	return c.Status().Update(ctx, after)
}

// handOver gives a certificate to the agent, as an annotation of its add-on.
func (c *controllers) handOver(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, a *ocm.ManagedClusterAddOn) error {
	next := ocm.Certificate{PEM: string(csr.Status.Certificate), Since: csr.CreationTimestamp.UTC()}
	// an older request must not replace a newer one when the hub restarts
	if had := a.Certificate(csr.Spec.SignerName); had.PEM == next.PEM || had.Since.After(next.Since) {
		return nil
	}
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	after := copyOf(a)
	if after.Annotations == nil {
		after.Annotations = make(map[string]string)
	}
	after.Annotations[ocm.CertificateAnnotation(csr.Spec.SignerName)] = string(text)
	return c.patch(ctx, a, after)
}
