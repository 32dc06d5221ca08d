package op_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/issuer/op"
)

func TestTokenHasGroups(t *testing.T) {
	u := op.User{Name: "anna", Password: "secret", Groups: []string{"staff"}}
	token := op.Start(t, "kubectl", "https://localhost:1/callback", u).Token(t, u)
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("not a token: %s", token)
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || !strings.Contains(string(claims), `"groups":["staff"]`) || !strings.Contains(string(claims), `"sub":"anna"`) || !strings.Contains(string(claims), `"aud":["kubectl"]`) {
		t.Errorf("claims %s, %v", claims, err)
	}
}
