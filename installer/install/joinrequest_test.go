package install

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

func TestJoinRequiresClusterLoadBalancer(t *testing.T) {
	for name, row := range map[string]struct {
		given, has string
		fits       bool
	}{
		"none given":               {"", "127.0.0.1:6444", true},
		"the cluster's":            {"10.0.0.9:6443", "10.0.0.9:6443", true},
		"without its port":         {"10.0.0.9", "10.0.0.9:6443", true},
		"of version 6":             {"fd00::9", "[fd00::9]:6443", true},
		"another":                  {"10.0.0.8", "10.0.0.9:6443", false},
		"of a cluster without one": {"10.0.0.9:6443", "127.0.0.1:6444", false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := (JoinRequest{Endpoint: row.given}).check(share.Cluster{Endpoint: row.has}); (err == nil) != row.fits {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestJoinRequiresVersionOfCommand(t *testing.T) {
	for given, fits := range map[string]bool{"": true, "1.36.3": true, "1.35.4": false} {
		if err := (JoinRequest{Kubernetes: given}).check(share.Cluster{KubernetesVersion: "1.36.3"}); (err == nil) != fits {
			t.Errorf("%q: got %v", given, err)
		}
	}
}

func TestJoinFetchesFilesFromServerOrControlPlane(t *testing.T) {
	elsewhere := errors.New("a server's")
	client, err := share.NewClient("192.0.2.1:6445", "", "sha256:"+strings.Repeat("00", 32))
	if err != nil {
		t.Fatal(err)
	}
	r := JoinRequest{Client: client, Server: "192.0.2.1:6445", ControlPlane: true, Adjust: func(s *spec.Installer) (*spec.Installer, error) { return s, nil }}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	fromControlPlane := r.complete(gone, share.Cluster{Name: "one"}, Options{})
	if _, err := fromControlPlane.Open(); fromControlPlane.Bundle != "of 192.0.2.1:6445" || !errors.Is(err, context.Canceled) {
		t.Errorf("from the control plane: %s, %v", fromControlPlane.Bundle, err)
	}
	if _, err := fromControlPlane.Join.Missing(gone, []string{"a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("the control plane was not asked: %v", err)
	}
	fromServer := r.complete(gone, share.Cluster{}, Options{Bundle: "https://server/x", Open: func() (*bundle.Archive, error) { return nil, elsewhere }})
	if _, err := fromServer.Open(); fromServer.Bundle != "https://server/x" || !errors.Is(err, elsewhere) {
		t.Errorf("from a server: %s, %v", fromServer.Bundle, err)
	}
	if missing, err := fromServer.Join.Missing(gone, []string{"a"}); err != nil || len(missing) > 0 {
		t.Errorf("a server lacks %v, %v", missing, err)
	}
}

func TestJoinChecksControlPlanesOfCluster(t *testing.T) {
	j := Join{ControlPlane: true, Cluster: share.Cluster{APIServers: []string{"10.0.0.1:6443", "[fd00::1]:6443"}}}
	got := j.Checks(PreflightOptions{Node: preflight.Node{PrimaryHosts: []string{"10.0.0.1"}}}).Node
	if !got.Join || !got.Primary || !slices.Equal(got.PrimaryHosts, []string{"10.0.0.1", "fd00::1"}) {
		t.Errorf("got %+v", got)
	}
}
