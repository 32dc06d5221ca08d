package agent

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestAgentWaitsForRestartingService asks before anybody listens, as when the leading node starts its service for
// files again.
func TestAgentWaitsForRestartingService(t *testing.T) {
	folder := fixture.CA(t)
	authority, err := identity.ReadAuthority(folder)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	client, err := share.NewNodeClient(address, filepath.Join(folder, "ca.crt"), share.KubeletCertificate(fixture.ClientCertificate(t, folder, "system:node:host-1", "system:nodes")))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	time.AfterFunc(time.Second, func() {
		again, err := net.Listen("tcp", address)
		if err == nil {
			err = share.Serve(ctx, share.Mixed(again, authority.Server("host-0", "127.0.0.1")), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(share.Cluster{Name: "test"})
			}))
		}
		served <- err
	})
	of, err := operation.Host{Server: func() (*share.Client, error) { return client, nil }}.Cluster(t.Context())
	if err != nil || of.Name != "test" {
		t.Errorf("%+v, %v", of, err)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
