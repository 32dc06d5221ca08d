// Package approver approves the certificate requests of kubelets instead of Kubernetes, which would give a join token the certificate
// of any node.
//
// The agent of every control plane runs an Approver. The package decides by the matrix of package identity, which says who may
// request what. A request against the rules is left alone, and the log says why. A person may still decide about it.
package approver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/regularfile"
)

// reason is the reason of each approval.
const reason = "SealiftRule"

// pause is the time between two checks of kubelets' requests. A joining host waits for its certificate, and until a kubelet has a
// serving certificate, nobody can read the logs of its pods.
const pause = 3 * time.Second

// maxOpen is how many open requests of one token or node are looked at, the newest. A kubelet whose request stays open sends another.
const maxOpen = 100

// Approver approves requests of kubelets.
type Approver struct {
	Log *slog.Logger
	// Node is the control plane on which it runs.
	Node string
	// Own lists the names and addresses that this control plane serves the API at, or is about to. Nil means none besides those that
	// the cluster knows.
	Own func() ([]string, error)
	// Members lists the members of etcd. Nil means that there are none.
	Members func(context.Context) ([]cluster.EtcdMember, error)

	told map[string]string // why a request was left alone, by its name
}

// Run approves until ctx ends. The kubeconfig is read again when it changes: its certificate is renewed.
func (a *Approver) Run(ctx context.Context, kubeconfig string) {
	var client kubernetes.Interface
	var read []byte
	away := false // errors of the API; logged once
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		text, err := regularfile.ReadFile(kubeconfig)
		if err == nil && !bytes.Equal(text, read) {
			client, err = cluster.Client(kubeconfig)
			read = text
		}
		if err == nil {
			err = a.Pass(ctx, client)
		}
		if err != nil && ctx.Err() == nil && !away {
			a.Log.Warn("cannot approve certificates of kubelets for now", "error", err)
		}
		away = err != nil
		return pause
	})
}

// Pass keeps the cluster from approving on its own, tells the other approvers which names belong to this control plane, and checks
// each open request once.
func (a *Approver) Pass(ctx context.Context, client kubernetes.Interface) error {
	config, err := cluster.ReadApproverConfig(ctx, client)
	if err != nil {
		return err
	}
	removed, err := cluster.KeepAutomaticApprovalOff(ctx, client, config)
	if len(removed) > 0 {
		a.Log.Warn("removed bindings by which the cluster approves certificates of nodes itself", "bindings", strings.Join(removed, " "))
	}
	if err != nil {
		return err
	}
	if err := a.publish(ctx, client, config); err != nil {
		return err
	}
	return a.Approve(ctx, client)
}

// Approve checks each open request once.
func (a *Approver) Approve(ctx context.Context, client kubernetes.Interface) error {
	open, err := openRequests(ctx, client)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		a.told = nil
		return nil
	}
	f, err := a.readFacts(ctx, client)
	if err != nil {
		return err
	}
	for _, r := range open {
		if err := a.decide(ctx, client, f, r); err != nil {
			return err
		}
	}
	return nil
}

// openRequests lists the undecided requests, the newest first, and of each sender no more than maxOpen.
func openRequests(ctx context.Context, client kubernetes.Interface) (open []certificatesv1.CertificateSigningRequest, err error) {
	for _, signer := range []string{certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName} {
		list, err := client.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + signer})
		if err != nil {
			return nil, err
		}
		for _, r := range list.Items {
			if len(r.Status.Conditions) == 0 {
				open = append(open, r)
			}
		}
	}
	slices.SortStableFunc(open, func(a, b certificatesv1.CertificateSigningRequest) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	of := map[string]int{}
	return slices.DeleteFunc(open, func(r certificatesv1.CertificateSigningRequest) bool {
		of[r.Spec.Username]++
		return of[r.Spec.Username] > maxOpen
	}), nil
}

// question is a request as a question of the matrix: who asks, for what, and for which node.
type question struct {
	party identity.Party
	right identity.Right
	node  string
}

// decide approves a request, or leaves it alone. An error means that nothing could be decided.
func (a *Approver) decide(ctx context.Context, client kubernetes.Interface, f facts, r certificatesv1.CertificateSigningRequest) error {
	var q question
	var refused error
	switch r.Spec.SignerName {
	case certificatesv1.KubeletServingSignerName:
		q, refused = f.serving(r.Spec)
	default:
		q, refused = f.client(ctx, client, r.Spec)
	}
	if unknown, ok := errors.AsType[*unknownError](refused); ok {
		return unknown
	}
	if refused == nil && !q.party.Has(q.right) {
		refused = fmt.Errorf("%w: %s may not ask for %s", errRight, r.Spec.Username, q.right)
	}
	if refused == nil {
		refused = f.admit(ctx, client, q, r.Spec)
	}
	if refused != nil {
		a.refuse(r, q, refused)
		return nil
	}
	return a.approve(ctx, client, r, q)
}

// errRight means that a party lacks a right.
var errRight = errors.New("the matrix of rights does not have it")

// unknownError is an error that says nothing about a request: the cluster could not be asked.
type unknownError struct{ error }

func (e *unknownError) Unwrap() error { return e.error }

// approve approves a kubelet's certificate.
func (a *Approver) approve(ctx context.Context, client kubernetes.Interface, r certificatesv1.CertificateSigningRequest, q question) error {
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: reason, Message: string(q.right),
	})
	_, err := client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, r.Name, &r, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // another control plane was faster
		return nil
	}
	if err != nil {
		return fmt.Errorf("approve %s: %w", r.Name, err)
	}
	a.Log.Info("audit: approved", "right", q.right, "party", q.party, "node", q.node, "user", r.Spec.Username, "request", r.Name)
	return nil
}

// refuse logs why a request is left alone, once.
func (a *Approver) refuse(r certificatesv1.CertificateSigningRequest, q question, why error) {
	if a.told == nil {
		a.told = map[string]string{}
	}
	if a.told[r.Name] == why.Error() {
		return
	}
	a.told[r.Name] = why.Error()
	a.Log.Warn("audit: refused", "right", q.right, "party", q.party, "node", q.node, "user", r.Spec.Username, "request", r.Name, "error", why)
}
