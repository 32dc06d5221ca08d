package release

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestFailureTellsWhatClusterAnswered: callers branch on it, and it shows no values.
func TestFailureTellsWhatClusterAnswered(t *testing.T) {
	values := map[string]any{"password": "correct horse"}
	err := fail(t.Context(), "read", "web", fmt.Errorf("query: %w", apierrors.NewUnauthorized("correct horse")), values)
	if answer := new(apierrors.StatusError); !errors.As(err, &answer) || !apierrors.IsUnauthorized(err) || answer.ErrStatus.Code != 401 || answer.ErrStatus.Message != "" {
		t.Errorf("got %#v", errors.Unwrap(err))
	}
	if err := fail(t.Context(), "read", "web", fmt.Errorf("query: %w", ErrNotFound), nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestErrorsMaskSecretsOnly(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"words": {
			"mode": "replica", "namespace": "kube-system", "chart": "ingress-nginx", "existingSecret": "web-secret", "secretName": "tls-web", "secretKeyRef": "app-ref",
			"image": "registry.k8s.io/ingress-nginx/controller:v1.9.4", "apiVersion": "autoscaling/v2beta2", "api": "policy/v1alpha1", "class": "nginx1", "host": "web.example.com",
			"cidr": "10.244.0.0/16", "zone": "eu-west-1a", "path": "/var/lib", "level": "warning", "size": "100Gi", "n": 5.0, "on": true, "none": nil,
		},
	} {
		var words []string
		for _, v := range values {
			if s, ok := v.(string); ok && s != "/var/lib" {
				words = append(words, s)
			}
		}
		text := "Error: " + strings.Join(words, ", ")
		if got := censor(text, values); got != text {
			t.Errorf("%s: %s\nbecame %s", name, text, got)
		}
	}
	for value, name := range map[string]string{
		"hunter": "db.password", "77": "db.pin", "x": "apiKey", "correct horse": "phrase", "s3cr3tword": "value", "Zm9vYmFyMTIzNDU2": "data", "pa$$word!": "list",
		"postgres://app:hunter@db/app": "dsn", "0123456789abcdef0123": "id", "-----BEGIN PRIVATE KEY-----\nAAAA\n": "pem", "abcdefghijklmnopqrs1": "license",
	} {
		values := map[string]any{}
		at := values
		path := strings.Split(name, ".")
		for _, part := range path[:len(path)-1] {
			next := map[string]any{}
			at[part], at = next, next
		}
		at[path[len(path)-1]] = value
		if got := censor("invalid: \""+value+"\" (by x7 and 772)", values); strings.Contains(strings.TrimSuffix(got, "(by x7 and 772)"), value) || !strings.Contains(got, "<value "+name+">") || !strings.HasSuffix(got, "(by x7 and 772)") {
			t.Errorf("%s = %q: %s", name, value, got)
		}
	}
}
