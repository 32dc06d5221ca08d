package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/cli/kubeconfig"
	"github.com/sealift/sealift/fleet/agent"
	"github.com/sealift/sealift/fleet/control"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/join"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/docexamples"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// TestFleetPageIsFollowed follows docs/fleet.md with a hub, and with the agent of a cluster that has its own API server.
func TestFleetPageIsFollowed(t *testing.T) {
	short.Skip(t, "kube-apiservers")
	home, program, path := follower(t)
	onHub, onCluster := controlplane.ForTest(t), controlplane.ForTest(t)
	admin := filepath.Join(home, "hub.kubeconfig")
	if err := controlplane.WriteKubeconfig(admin, onHub); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, ended := make(chan struct{}), make(chan error, 2)
	go func() { ended <- runHub(ctx, onHub, ready) }()
	go func() { ended <- runAgent(ctx, filepath.Join(home, "oslo.kubeconfig"), onCluster) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	<-ready
	page, _ := moving(t, home, "")
	docexamples.Follow(t, page, program, "KUBECONFIG="+admin, "HOME="+home, path)
}

// follower makes a home with the program sealift, which becomes this test, and a PATH with kubectl.
func follower(t *testing.T) (home, program, path string) {
	t.Helper()
	home, bin := t.TempDir(), t.TempDir()
	workshop, err := upstream.NewWorkshop(upstream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kubectl, err := workshop.File(t.Context(), upstream.Program("kubectl"))
	if err == nil {
		err = os.Symlink(kubectl, filepath.Join(bin, "kubectl"))
	}
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(home, "sealift") // what sealift becomes
	if err := fixture.WriteProgram(program, "#!/bin/sh\nSEALIFT_TEST_MAIN=1 exec '"+self+"' \"$@\"\n"); err != nil {
		t.Fatal(err)
	}
	return home, program, "PATH=" + home + ":" + bin + ":" + os.Getenv("PATH")
}

// TestFleetAirgapPageIsFollowed follows docs/fleet-airgap.md with a hub, and with a disconnected cluster.
func TestFleetAirgapPageIsFollowed(t *testing.T) {
	short.Skip(t, "kube-apiservers")
	home, program, path := follower(t)
	onHub, onShip := controlplane.ForTest(t), controlplane.ForTest(t)
	page, err := os.ReadFile("../../docs/fleet-airgap.md")
	if err != nil {
		t.Fatal(err)
	}
	admin, ship := filepath.Join(home, "hub.kubeconfig"), filepath.Join(home, "ship-admin.kubeconfig")
	for file, cfg := range map[string]*rest.Config{admin: onHub, ship: onShip} {
		if err := controlplane.WriteKubeconfig(file, cfg); err != nil {
			t.Fatal(err)
		}
	}
	// the tour runs in its own folder
	copied := filepath.Join(home, "page.md")
	if err := os.WriteFile(copied, bytes.ReplaceAll(page, []byte("ship-admin.kubeconfig"), []byte(ship)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- runHub(ctx, onHub, ready) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-ready
	docexamples.Follow(t, copied, program, "KUBECONFIG="+admin, "HOME="+home, path)
}

// runHub runs a hub, and closes ready when it is about to work.
func runHub(ctx context.Context, cfg *rest.Config, ready chan struct{}) error {
	return hub.Run(ctx, hub.Options{
		Config: cfg, Webhook: hub.Webhook{Listen: "127.0.0.1:0"},
		Controllers: []hub.Controller{control.New(control.Options{}), func(context.Context, *hub.Hub) error {
			close(ready)
			return nil
		}},
	})
}

// runAgent runs an agent once there is a kubeconfig for it.
func runAgent(ctx context.Context, file string, local *rest.Config) error {
	for {
		if _, err := os.Stat(file); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
	cfg, err := kubeconfig.Load(file, "")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	member, err := join.Read(text)
	if err != nil {
		return err
	}
	return agent.Run(ctx, agent.Options{Hub: cfg, Local: local, Cluster: member.Cluster, Keys: member.HubKeys, Look: 200 * time.Millisecond, Heartbeat: time.Second})
}
