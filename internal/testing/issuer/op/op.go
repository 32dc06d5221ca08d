// Package op runs an issuer that others wrote on loopback: zitadel's, with its login page. It shows that a login works with more than the
// issuer of the tests. It keeps everything in memory.
package op

import (
	"context"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	zitadel "github.com/zitadel/oidc/v3/pkg/op"
)

// User is somebody who can log in. The name is also the subject.
type User struct {
	Name, Password string
	Groups         []string
}

// Issuer serves until its test ends.
type Issuer struct {
	URL string
	CA  string // in PEM

	client, redirectURI string
	transport           http.RoundTripper // trusts CA
}

// Start runs an issuer with one public client, which uses PKCE. Its ID tokens have the groups of users in the claim groups.
func Start(t testing.TB, client, redirectURI string, users ...User) Issuer {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	i := Issuer{URL: "https://" + server.Listener.Addr().String(), client: client, redirectURI: redirectURI}
	clients := map[string]*storage.Client{client: storage.NativeClient(client, redirectURI)}
	known := people(users)
	server.Config.Handler = exampleop.SetupServer(i.URL, withGroups{storage.NewStorageWithClients(known, clients), known}, slog.New(slog.NewTextHandler(t.Output(), nil)), false)
	server.StartTLS()
	t.Cleanup(server.Close)
	i.transport = server.Client().Transport
	i.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return i
}

// people is the store of users.
type people []User

// GetUserByID implements storage.UserStore.
func (p people) GetUserByID(id string) *storage.User { return p.GetUserByUsername(id) }

// GetUserByUsername implements storage.UserStore.
func (p people) GetUserByUsername(name string) *storage.User {
	for _, u := range p {
		if u.Name == name {
			return &storage.User{ID: u.Name, Username: u.Name, Password: u.Password}
		}
	}
	return nil
}

// ExampleClientID implements storage.UserStore.
func (people) ExampleClientID() string { return storage.ServiceUserID }

// withGroups adds the claim.
type withGroups struct {
	*storage.Storage
	people people
}

// SetUserinfoFromRequest implements op.CanSetUserinfoFromRequest.
func (w withGroups) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, request zitadel.IDTokenRequest, scopes []string) error {
	for _, u := range w.people {
		if u.Name == request.GetSubject() {
			info.AppendClaims("groups", u.Groups)
		}
	}
	return w.Storage.SetUserinfoFromRequest(ctx, info, request, scopes)
}
