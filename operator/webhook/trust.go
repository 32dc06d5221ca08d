package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// overlapTime is how long replicas may show certificates of different CAs: a kubelet takes a minute or two to change the files of a Secret,
// each at another time. A certificate that the API server does not trust by then is shown all the same.
const overlapTime = 5 * time.Minute

// trust is what keep knows about CAs that the API server shall trust besides that of the shown certificate.
type trust struct {
	others []byte    // of certificates that other replicas may show still, or already
	until  time.Time // when they have ended

	next  [sha256.Size]byte // the certificate that waits to be shown
	since time.Time
	again time.Time // when to look again whether it is trusted
}

// with adds the others to a CA.
func (t *trust) with(ca []byte) []byte {
	if len(t.others) == 0 {
		return ca
	}
	return joined(t.others, ca)
}

// keep adds CAs to the others.
func (t *trust) keep(ca []byte) {
	t.others, t.until = joined(t.others, ca), time.Now().Add(overlapTime)
}

// end drops the others when their time is over, and reports whether it did.
func (t *trust) end() bool {
	if len(t.others) == 0 || time.Now().Before(t.until) {
		return false
	}
	t.others = nil
	return true
}

// due reports whether it is time to try to show a certificate.
func (t *trust) due(c *certificate) bool {
	now := time.Now()
	if t.next != c.sum {
		t.next, t.since, t.again = c.sum, now, now
	}
	if now.Before(t.again) {
		return false
	}
	t.again = now.Add(retryTime)
	return true
}

// overdue reports whether a certificate has waited for too long.
func (t *trust) overdue() bool { return time.Since(t.since) > overlapTime }

// inherit keeps the CAs of a leader before: the other replicas may show certificates of theirs.
func (e *endpoint) inherit(ctx context.Context) {
	if e.server.options.Leader == nil {
		return
	}
	bundles, err := e.bundles(ctx)
	if err != nil {
		return // write meets the same error, and reports it
	}
	shown := e.shown.Load().ca
	for _, bundle := range bundles {
		if !contains(shown, bundle) {
			e.trust.keep(bundle)
		}
	}
}

// trusted reports whether all objects that lead here have a CA.
func (e *endpoint) trusted(ctx context.Context, ca []byte) bool {
	bundles, err := e.bundles(ctx)
	return err == nil && !slices.ContainsFunc(bundles, func(bundle []byte) bool { return !contains(bundle, ca) })
}

// bundles are the CAs in the objects that lead here.
func (e *endpoint) bundles(ctx context.Context) (all [][]byte, err error) {
	for _, o := range e.objects(nil) {
		objects, err := e.server.options.Cluster.Objects(ctx, o.ref)
		if err != nil {
			return nil, err
		}
		live, err := objects.Get(ctx, o.ref.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		clients, _, _ := unstructured.NestedSlice(live.Object, "webhooks")
		if conversion, found, _ := unstructured.NestedMap(live.Object, "spec", "conversion", "webhook"); found {
			clients = append(clients, conversion)
		}
		for _, one := range clients {
			client, _ := one.(map[string]any)
			namespace, _, _ := unstructured.NestedString(client, "clientConfig", "service", "namespace")
			name, _, _ := unstructured.NestedString(client, "clientConfig", "service", "name")
			if namespace != e.server.options.Namespace || name != e.Service {
				continue
			}
			encoded, _, _ := unstructured.NestedString(client, "clientConfig", "caBundle")
			bundle, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				return nil, err
			}
			all = append(all, bundle)
		}
	}
	return all, nil
}

// certificates splits PEM.
func certificates(text []byte) (all [][]byte) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return all
		}
		all, text = append(all, pem.EncodeToMemory(block)), rest
	}
}

// joined are the certificates of two texts in PEM, each once.
func joined(one, two []byte) []byte {
	var all []byte
	for _, c := range append(certificates(one), certificates(two)...) {
		if !bytes.Contains(all, c) {
			all = append(all, c...)
		}
	}
	return all
}

// contains reports whether a text in PEM has all certificates of another one.
func contains(all, some []byte) bool {
	return len(joined(all, nil)) == len(joined(all, some))
}
