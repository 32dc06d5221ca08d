package token

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/util"
)

// The API server's name for the holder of a token: User, followed by the token's ID, in the group NodeGroup.
const (
	User      = api.BootstrapUserPrefix
	NodeGroup = "system:bootstrappers:kubeadm:default-node-token"
)

// The annotations of a token's Secret: the one node that the token is for, and the nodes that have joined with it.
const (
	renewsAnnotation = "sealift.dev/renews"
	nodesAnnotation  = "sealift.dev/nodes"
)

// The bounds of a token in its life: how many nodes it makes, and how often it gets a certificate for one of them, whose join may be
// interrupted and run again.
const (
	MaxNodes = 250
	MaxTimes = 20
)

// Use is the purpose of a token, and its uses so far.
type Use struct {
	// Renews is the one node that gets one new certificate with the token; "" for a token that makes new nodes.
	Renews string
	// Nodes are those that joined with it, by name.
	Nodes map[string]Joined
}

// Joined is one node that joined with a token.
type Joined struct {
	First time.Time `json:"first"`
	Times int       `json:"times"` // how many certificates it got
	// Key is the digest of the public key for which a token that renews gave its certificate. It gives none for another key.
	Key string `json:"key,omitempty"`
}

// Find reads the purpose of a usable token, by its ID; ErrUnknown if there is none.
func Find(ctx context.Context, client kubernetes.Interface, id string) (Use, error) {
	s, err := secretOf(ctx, client, id)
	if err != nil {
		return Use{}, err
	}
	return useOf(s)
}

func secretOf(ctx context.Context, client kubernetes.Interface, id string) (*corev1.Secret, error) {
	if !util.IsValidBootstrapTokenID(id) {
		return nil, ErrUnknown
	}
	s, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, util.BootstrapTokenSecretName(id), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !authenticates(s) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, fmt.Errorf("look up token %s: %w", id, err)
	}
	return s, nil
}

func useOf(s *corev1.Secret) (u Use, err error) {
	u = Use{Renews: s.Annotations[renewsAnnotation], Nodes: map[string]Joined{}}
	if text := s.Annotations[nodesAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &u.Nodes); err != nil {
			return u, fmt.Errorf("annotation %s of Secret kube-system/%s: %w", nodesAnnotation, s.Name, err)
		}
	}
	return u, nil
}

// Admit notes in a token's Secret that a node gets a certificate with it, for the key with this digest. The error means that the token is
// used up. Approvers of several control planes may call it at the same time: one of them gets a conflict.
func Admit(ctx context.Context, client kubernetes.Interface, id, node, key string, now time.Time) error {
	s, err := secretOf(ctx, client, id)
	if err != nil {
		return err
	}
	u, err := useOf(s)
	if err != nil {
		return err
	}
	one, known := u.Nodes[node]
	switch {
	case !known && len(u.Nodes) >= MaxNodes:
		return fmt.Errorf("token %s has made %d nodes, as many as one token may; make another with 'sealift token create'", id, len(u.Nodes))
	case one.Times >= MaxTimes:
		return fmt.Errorf("token %s got %d certificates for node %s, the maximum; make another with 'sealift token create'", id, one.Times, node)
	case known && u.Renews != "" && one.Key != key:
		return fmt.Errorf("token %s has given node %s its certificate; make another with 'sealift token create --renew %s'", id, node, node)
	case !known:
		one.First = now.UTC().Truncate(time.Second)
	}
	if u.Renews != "" {
		one.Key = key
	}
	one.Times++
	u.Nodes[node] = one
	text, err := json.Marshal(u.Nodes)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, nodesAnnotation, string(text))
	if _, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Update(ctx, s, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("record in token %s that node %s joins: %w", id, node, err)
	}
	return nil
}
