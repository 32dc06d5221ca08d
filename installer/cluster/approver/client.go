package approver

import (
	"context"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/token"
	"github.com/sealift/sealift/internal/sha256hex"
)

// interruptedTime is how long after a node's name was approved the same token may request it again: an interrupted join is repeated.
const interruptedTime = time.Hour

// client reads a request for the certificate with which a kubelet asks the API.
func (f facts) client(ctx context.Context, client kubernetes.Interface, r certificatesv1.CertificateSigningRequestSpec) (q question, err error) {
	party, name := partyOf(r)
	q = question{party: party, right: identity.AnotherNode}
	if q.node, err = clientRequest(r); err != nil {
		return q, err
	}
	if party == identity.Worker {
		return f.renewal(q, name)
	}
	q.right = identity.NewWorker
	what, taken := f.api.name(q.node)
	if !taken {
		what, taken = f.choice(q.node)
	}
	if taken { // even of a control plane whose node is away
		q.right = identity.AnotherNode
		return q, fmt.Errorf("%s is %s", q.node, what)
	}
	if party != identity.Token {
		return q, nil
	}
	return f.withToken(ctx, client, q, name)
}

// clientRequest returns the node whose client certificate a request is for. The error says why it is not such a request.
func clientRequest(r certificatesv1.CertificateSigningRequestSpec) (node string, err error) {
	asked, err := parseRequest(r.Request)
	if err != nil {
		return "", err
	}
	if node, err = nodeOf(asked); err != nil {
		return node, err
	}
	if err := checkUsages(r, certificatesv1.UsageClientAuth); err != nil {
		return node, err
	}
	if len(asked.DNSNames)+len(asked.IPAddresses)+len(asked.EmailAddresses)+len(asked.URIs) > 0 {
		return node, errors.New("it has names or addresses, which only a server needs")
	}
	return node, nil
}

// renewal is a kubelet that requests its own certificate.
func (f facts) renewal(q question, own string) (question, error) {
	if q.node != own {
		return q, fmt.Errorf("node %s asks for the certificate of node %s", own, q.node)
	}
	q.right = identity.RenewClient
	if _, there := f.nodes[own]; !there {
		return q, fmt.Errorf("the cluster has no node %s", own)
	}
	if f.removed[own].Gone() {
		return q, fmt.Errorf("node %s was removed from the cluster, and has not joined again", own)
	}
	return q, nil
}

// withToken is a host without a certificate: a new node, one whose join was interrupted, or the one that the token is for.
func (f facts) withToken(ctx context.Context, client kubernetes.Interface, q question, id string) (question, error) {
	t, err := token.Find(ctx, client, id)
	switch {
	case errors.Is(err, token.ErrUnknown):
		return q, fmt.Errorf("token %s is %w", id, err)
	case err != nil:
		return q, &unknownError{err}
	}
	node, there := f.nodes[q.node]
	switch {
	case t.Renews != "" && t.Renews != q.node:
		q.right = identity.AnotherNode
		return q, fmt.Errorf("token %s was made for node %s", id, t.Renews)
	case t.Renews != "" && !there:
		return q, fmt.Errorf("token %s was made for node %s, which the cluster does not have", id, t.Renews)
	case t.Renews != "":
		q.right = identity.RenewEnded
	case there && (node.Ready || time.Since(t.Nodes[q.node].First).Abs() > interruptedTime):
		q.right = identity.AnotherNode
		return q, fmt.Errorf("the cluster has a node %s; if its host is gone, run 'sealift node remove %s' on a control plane", q.node, q.node)
	}
	return q, nil
}

// admit counts a joining node against the bounds of its token, and lets a removed one return. It notes what a node serves at.
func (f facts) admit(ctx context.Context, client kubernetes.Interface, q question, r certificatesv1.CertificateSigningRequestSpec) error {
	if r.SignerName == certificatesv1.KubeletServingSignerName {
		return f.remember(ctx, client, q.node, r)
	}
	if q.party != identity.Token {
		return nil
	}
	_, id := partyOf(r)
	asked, err := parseRequest(r.Request)
	if err != nil {
		return err
	}
	if err := token.Admit(ctx, client, id, q.node, sha256hex.Of(asked.RawSubjectPublicKeyInfo), time.Now()); err != nil {
		return err
	}
	return cluster.NoteJoined(ctx, client, q.node)
}
