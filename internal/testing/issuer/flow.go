package issuer

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Flow is the authorization code flow (OpenID Connect Core 1.0, section 3.1) with PKCE (RFC 7636). Set its fields before the first login.
type Flow struct {
	// Client is the one client of the issuer: its ID, its secret, and its redirect URI. Without a secret, it is a public client.
	Client struct{ ID, Secret, RedirectURI string }
	// Person has the claims of the next person to log in.
	Person map[string]any
	// Forge, if it is not nil, returns the ID token for the claims that an honest issuer would sign.
	Forge func(claims map[string]any) string
	// Lax accepts codes more than once, and without their verifier.
	Lax bool

	mu    sync.Mutex
	codes map[string]url.Values // requests by their code
}

// authorize logs the person in, and sends the browser back with a code.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case q.Get("client_id") != i.Client.ID || q.Get("redirect_uri") != i.Client.RedirectURI:
		http.Error(w, "unknown client or redirect URI", http.StatusBadRequest)
		return
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || !strings.Contains(" "+q.Get("scope")+" ", " openid "):
		http.Error(w, "not an authorization code flow with PKCE", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.codes == nil {
		i.codes = make(map[string]url.Values)
	}
	i.codes[code] = q
	http.Redirect(w, r, i.Client.RedirectURI+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

// token answers a code with an ID token.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	if !i.isClient(r) {
		refuse(w, http.StatusUnauthorized, "invalid_client")
		return
	}
	request, ok := i.redeem(r)
	if !ok {
		refuse(w, http.StatusBadRequest, "invalid_grant")
		return
	}
	claims := map[string]any{"aud": i.Client.ID, "nonce": request.Get("nonce")}
	maps.Copy(claims, i.Person)
	var text string
	if i.Forge != nil {
		text = i.Forge(claims)
	} else {
		signed, err := i.sign(claims)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		text = signed
	}
	answer(w, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 300, "id_token": text})
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why}) // the client reports a document that is cut
}

// isClient reports whether a request is from the client.
func (i *Issuer) isClient(r *http.Request) bool {
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	return id == i.Client.ID && secret == i.Client.Secret
}

// redeem returns the request for which a code was made. A code is good for one answer.
func (i *Issuer) redeem(r *http.Request) (url.Values, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	code := r.PostFormValue("code")
	request, ok := i.codes[code]
	if i.Lax {
		return request, ok
	}
	delete(i.codes, code)
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	return request, ok && r.PostFormValue("grant_type") == "authorization_code" && r.PostFormValue("redirect_uri") == request.Get("redirect_uri") &&
		base64.RawURLEncoding.EncodeToString(sum[:]) == request.Get("code_challenge")
}

// Key is the public key of the issuer, as HMAC-based forgeries use it, in the form of the keys' document.
func (i *Issuer) Key(t testing.TB) []byte {
	t.Helper()
	text, err := i.public().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
