package share_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestNodesConnectDuringCARotation: a control plane has two CAs in its file, and signs with the first one. Nodes trust one of them or both,
// and show certificates of one of them.
func TestNodesConnectDuringCARotation(t *testing.T) {
	old, renewed := fixture.CA(t), fixture.CA(t)
	file := func(folders ...string) string {
		t.Helper()
		var all []byte
		for _, folder := range folders {
			text, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
		name := filepath.Join(t.TempDir(), "ca.crt")
		if err := os.WriteFile(name, all, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	serve := func(cas string, signer string) (address string) {
		t.Helper()
		key, err := os.ReadFile(filepath.Join(signer, "ca.key"))
		if err == nil {
			err = os.WriteFile(filepath.Join(filepath.Dir(cas), "ca.key"), key, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		authority, err := identity.ReadAuthority(filepath.Dir(cas))
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- share.Serve(ctx, share.Mixed(l, authority.Server("host-0", "127.0.0.1")), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if len(r.TLS.VerifiedChains) == 0 {
					w.WriteHeader(http.StatusUnauthorized)
				}
				_, _ = w.Write([]byte(`{"rotation": "x"}`))
			}))
		}()
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		return l.Addr().String()
	}
	kubelets := map[string]string{old: fixture.ClientCertificate(t, old, "system:node:a", "system:nodes"), renewed: fixture.ClientCertificate(t, renewed, "system:node:a", "system:nodes")}
	for _, row := range []struct {
		name           string
		server, client []string // what each trusts; the server signs with the first
		shows          string
		ok             bool
	}{
		{"a node from before", []string{old, renewed}, []string{old}, old, true},
		{"a node that trusts both, before the new one signs", []string{old, renewed}, []string{old, renewed}, renewed, true},
		{"a node that trusts both, a server whose new CA signs", []string{renewed, old}, []string{old, renewed}, old, true},
		{"a node that has forgotten the old one", []string{renewed, old}, []string{renewed}, renewed, true},
		{"a server that has forgotten the old one", []string{renewed}, []string{renewed, old}, old, false},
		{"a node from before, a server whose new CA signs", []string{renewed, old}, []string{old}, old, false},
	} {
		client, err := share.NewNodeClient(serve(file(row.server...), row.server[0]), file(row.client...), share.KubeletCertificate(kubelets[row.shows]))
		if err != nil {
			t.Fatal(err)
		}
		if c, err := client.Cluster(t.Context()); (err == nil) != row.ok || err == nil && c.Rotation != "x" {
			t.Errorf("%s: %+v, %v", row.name, c, err)
		}
	}
	if all, err := identity.ReadCAs(file(old, renewed)); err != nil || len(all) != 2 || slices.Equal(all[0].Raw, all[1].Raw) {
		t.Errorf("%d CAs, %v", len(all), err)
	}
}
