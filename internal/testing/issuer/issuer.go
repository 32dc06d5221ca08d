// Package issuer runs an OpenID Connect issuer on loopback, for tests of logins: discovery, its public keys, signed ID tokens, and the
// authorization code flow with PKCE.
//
// It signs any claims and logs in anybody that a test names, without a login page. Package op beside it is a real issuer.
package issuer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const keyID = "key-1"

// Issuer serves until its test ends.
type Issuer struct {
	// Says is the issuer in its discovery document, if it is not its URL.
	Says string
	// Describe, if it is not nil, changes the discovery document.
	Describe func(document map[string]any)
	Flow

	server *httptest.Server
	key    *ecdsa.PrivateKey
	signer jose.Signer
}

// Start runs an issuer.
func Start(t testing.TB) *Issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", keyID)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{key: key, signer: signer}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /site/.well-known/openid-configuration", i.discovery)
	mux.HandleFunc("GET /site/keys", i.keys)
	mux.HandleFunc("GET /site/authorize", i.authorize)
	mux.HandleFunc("POST /site/token", i.token)
	i.server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Stop)
	return i
}

// Stop ends the issuer; it may be called more than once.
func (i *Issuer) Stop() { i.server.Close() }

// URL is the issuer in tokens.
func (i *Issuer) URL() string { return i.server.URL + "/site" }

// CA is the CA of its certificate, in PEM.
func (i *Issuer) CA() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.server.Certificate().Raw}))
}

// Token signs a token that is valid for an hour: the claims, with those of the issuer unless they are given.
func (i *Issuer) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	token, err := i.sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (i *Issuer) sign(claims map[string]any) (string, error) {
	text, err := json.Marshal(i.Whole(claims))
	if err != nil {
		return "", err
	}
	signed, err := i.signer.Sign(text)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// Whole returns claims with those of the issuer: its name and an hour.
func (i *Issuer) Whole(claims map[string]any) map[string]any {
	now := time.Now()
	whole := map[string]any{"iss": i.URL(), "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	maps.Copy(whole, claims)
	return whole
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	name := i.URL()
	if i.Says != "" {
		name = i.Says
	}
	document := map[string]any{
		"issuer": name, "jwks_uri": i.URL() + "/keys", "authorization_endpoint": i.URL() + "/authorize", "token_endpoint": i.URL() + "/token",
		"response_types_supported": []string{"id_token", "code"}, "scopes_supported": []string{"openid", "email", "groups"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"ES256"},
	}
	if i.Describe != nil {
		i.Describe(document)
	}
	answer(w, document)
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.public()}})
}

func (i *Issuer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: i.key.Public(), KeyID: keyID, Algorithm: string(jose.ES256), Use: "sig"}
}

func answer(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document) // the client reports a document that is cut
}
