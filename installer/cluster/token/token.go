// Package token keeps the tokens by which hosts join a cluster: bootstrap tokens of Kubernetes, Secrets that expire, good
// for kubeadm and for the server that hosts take their files from.
//
// The package knows these Secrets. It prints and logs no token.
package token

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/util"
	"k8s.io/cluster-bootstrap/util/secrets"
	"k8s.io/cluster-bootstrap/util/tokens"
)

// Token is the public part of a token, without its secret.
type Token struct {
	ID          string    `json:"id"`
	Description string    `json:"description,omitempty"`
	Expires     time.Time `json:"expires,omitzero"` // zero: never
	Usable      bool      `json:"usable"`           // by a host that joins
}

// ErrUnknown means that a token is not one of the cluster's: mistyped, expired or revoked.
var ErrUnknown = errors.New("unknown, expired or revoked")

// Create creates a token that expires after ttl, and returns it in full, for the only time.
func Create(ctx context.Context, client kubernetes.Interface, ttl time.Duration, description string) (string, error) {
	return create(ctx, client, ttl, description, "")
}

// CreateToRenew creates a token with one purpose: to give a node with an expired certificate another one. No host joins with it.
func CreateToRenew(ctx context.Context, client kubernetes.Interface, ttl time.Duration, description, node string) (string, error) {
	return create(ctx, client, ttl, description, node)
}

func create(ctx context.Context, client kubernetes.Interface, ttl time.Duration, description, renews string) (string, error) {
	whole, err := util.GenerateBootstrapToken()
	if err != nil {
		return "", err
	}
	id, secret, err := tokens.ParseToken(whole)
	if err != nil {
		return "", err
	}
	var annotations map[string]string
	if renews != "" {
		annotations = map[string]string{renewsAnnotation: renews}
	}
	_, err = client.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: util.BootstrapTokenSecretName(id), Annotations: annotations},
		Type:       api.SecretTypeBootstrapToken,
		StringData: map[string]string{
			api.BootstrapTokenIDKey: id, api.BootstrapTokenSecretKey: secret, api.BootstrapTokenDescriptionKey: description,
			api.BootstrapTokenExpirationKey:       time.Now().Add(ttl).UTC().Format(time.RFC3339),
			api.BootstrapTokenUsageSigningKey:     strconv.FormatBool(renews == ""), // without it, no host joins
			api.BootstrapTokenUsageAuthentication: "true",
			api.BootstrapTokenExtraGroupsKey:      NodeGroup,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create a token: %w", err)
	}
	return whole, nil
}

// List returns all tokens, sorted by their ids.
func List(ctx context.Context, client kubernetes.Interface) ([]Token, error) {
	found, err := client.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(api.SecretTypeBootstrapToken)})
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	list := []Token{}
	for _, s := range found.Items {
		t := Token{ID: secrets.GetData(&s, api.BootstrapTokenIDKey), Description: secrets.GetData(&s, api.BootstrapTokenDescriptionKey), Usable: usable(&s)}
		// what cannot be read as a time is expired, as Usable says
		t.Expires, _ = time.Parse(time.RFC3339, secrets.GetData(&s, api.BootstrapTokenExpirationKey))
		list = append(list, t)
	}
	slices.SortStableFunc(list, func(a, b Token) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// usable reports whether a host can join with a token.
func usable(s *corev1.Secret) bool {
	return authenticates(s) && secrets.GetData(s, api.BootstrapTokenUsageSigningKey) == "true"
}

// authenticates reports whether the API server accepts a token.
func authenticates(s *corev1.Secret) bool {
	return s.Type == api.SecretTypeBootstrapToken && s.DeletionTimestamp == nil && !secrets.HasExpired(s, time.Now()) &&
		secrets.GetData(s, api.BootstrapTokenUsageAuthentication) == "true"
}

// Revoke removes tokens, given by their ids or in full. One that cannot be removed keeps no other one valid.
func Revoke(ctx context.Context, client kubernetes.Interface, idsOrTokens ...string) error {
	var errs []error
	for _, one := range idsOrTokens {
		errs = append(errs, revoke(ctx, client, one))
	}
	return errors.Join(errs...)
}

func revoke(ctx context.Context, client kubernetes.Interface, idOrToken string) error {
	id := idOrToken
	if whole, _, err := tokens.ParseToken(idOrToken); err == nil {
		id = whole
	}
	if !util.IsValidBootstrapTokenID(id) {
		return errors.New("not the id of a token, which has six letters and digits; 'sealift token list' shows them")
	}
	err := client.CoreV1().Secrets(metav1.NamespaceSystem).Delete(ctx, util.BootstrapTokenSecretName(id), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no token %s; 'sealift token list' shows all", id)
	}
	if err != nil {
		return fmt.Errorf("revoke token %s: %w", id, err)
	}
	return nil
}

// Verify reports whether a token is good for joining; ErrUnknown when not. The time that it takes reveals nothing of the secret.
func Verify(ctx context.Context, client kubernetes.Interface, whole string) error {
	id, secret, err := tokens.ParseToken(whole)
	if err != nil {
		return ErrUnknown
	}
	s, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, util.BootstrapTokenSecretName(id), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ErrUnknown
	}
	if err != nil {
		return fmt.Errorf("look up a token: %w", err)
	}
	same := subtle.ConstantTimeCompare([]byte(secrets.GetData(s, api.BootstrapTokenSecretKey)), []byte(secret)) == 1
	if !same || !usable(s) {
		return ErrUnknown
	}
	return nil
}
