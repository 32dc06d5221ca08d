package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
)

// ownedCluster is a real API server to which the installer applies the add-on "lights".
type ownedCluster struct {
	*testing.T
	config  *rest.Config
	client  dynamic.Interface
	applier *applier
	channel *kube.Engine
}

var (
	ourSet   = kube.Set{Name: "lights", Namespace: kube.DefaultNamespace}
	theirSet = kube.Set{Name: "addon-lights", Namespace: "kube-system"}
	keeper   = addon.Ownership{Owner: addon.Channel("kube-system", "lights"), Policy: addon.OnChange, Set: theirSet.String()}
)

func newOwnedCluster(t *testing.T) *ownedCluster {
	t.Helper()
	c := &ownedCluster{T: t, config: controlplane.ForTest(t)}
	var err error
	if c.applier, err = newApplier(c.config); err != nil {
		t.Fatal(err)
	}
	if c.client, err = dynamic.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	c.channel = kube.New(c.applier.engine.Cluster, kube.Options{Manager: "kops", TakeOver: []string{kube.Manager}})
	return c
}

// install applies a version of the add-on, with that many objects, as a hook does.
func (c *ownedCluster) install(version string, objects int) (output string, err error) {
	c.Helper()
	dir := c.TempDir()
	text := "resources: [all.yaml]\n"
	var all strings.Builder
	for i := range objects {
		fmt.Fprintf(&all, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: light-%d, namespace: default}\ndata: {version: '%s'}\n", i, version)
	}
	for name, content := range map[string]string{"kustomization.yaml": text, "all.yaml": all.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			c.Fatal(err)
		}
	}
	var out bytes.Buffer
	a := AddOn{Name: "lights", Applied: addon.Applied{Version: version, Digest: "sha256:" + version, Options: "o"}}
	err = c.applier.apply(c.Context(), a, dir, time.Minute, &out)
	return out.String(), err
}

// lights returns version and set of each object.
func (c *ownedCluster) lights() map[string]string {
	c.Helper()
	list, err := c.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default").List(c.Context(), metav1.ListOptions{LabelSelector: partOf})
	if err != nil {
		c.Fatal(err)
	}
	names := map[string]string{ourSet.ID(): "installer", theirSet.ID(): "channel"}
	found := map[string]string{}
	for _, obj := range list.Items {
		data, _ := obj.Object["data"].(map[string]any)
		found[obj.GetName()] = fmt.Sprint(data["version"], " ", names[obj.GetLabels()[partOf]])
	}
	return found
}

func (c *ownedCluster) want(what string, lights string) {
	c.Helper()
	if got := fmt.Sprint(c.lights()); got != "map["+lights+"]" {
		c.Errorf("%s: %s, want %s", what, got, lights)
	}
}

func TestInstallerKeepsChannelOwnedAddOns(t *testing.T) {
	c := newOwnedCluster(t)
	if out, err := c.install("1.0.0", 2); err != nil || !strings.Contains(out, "2 created") {
		t.Fatalf("%s, %v", out, err)
	}
	record, found, err := c.applier.records.Get(t.Context(), "lights")
	if err != nil || !found || record.Owner != addon.Installer() || record.Version != "1.0.0" || record.Set != ourSet.String() {
		t.Fatalf("%+v, %v, %v", record, found, err)
	}
	records := c.applier.records
	if _, err := records.Adopt(t.Context(), "lights", addon.Installer(), keeper, c.channel.AdoptNamed); err != nil {
		t.Fatal(err)
	}
	out, err := c.install("2.0.0", 3)
	if want := "add-on lights is kept by channel kube-system/lights at version 1.0.0: its objects are left alone"; err != nil || !strings.Contains(out, want) {
		t.Errorf("%s, %v", out, err)
	}
	c.want("kept", "light-0:1.0.0 channel light-1:1.0.0 channel")

	// Readiness and status check the objects wherever they are.
	view, err := ViewOf(c.config, false)
	if err != nil {
		t.Fatal(err)
	}
	owners, err := view.Owners(t.Context())
	if err != nil || setOf("lights", owners) != theirSet || setOf("other", owners) != (kube.Set{Name: "other"}) {
		t.Errorf("%v, %v", owners, err)
	}

	if _, err := records.GiveBack(t.Context(), "lights", keeper.Owner, c.applier.engine.AdoptNamed); err != nil {
		t.Fatal(err)
	}
	c.want("given back", "light-0:1.0.0 installer light-1:1.0.0 installer")
	if out, err := c.install("2.0.0", 1); err != nil || !strings.Contains(out, "1 pruned") {
		t.Errorf("%s, %v", out, err)
	}
	c.want("installed again", "light-0:2.0.0 installer")
}

// A hand-back that was killed after the record and before the objects is finished by the next install.
func TestInstallerFinishesHandBack(t *testing.T) {
	c := newOwnedCluster(t)
	if _, err := c.install("1.0.0", 3); err != nil {
		t.Fatal(err)
	}
	records := c.applier.records
	if _, err := records.Adopt(t.Context(), "lights", addon.Installer(), keeper, c.channel.AdoptNamed); err != nil {
		t.Fatal(err)
	}
	killed := errors.New("killed")
	if _, err := records.GiveBack(t.Context(), "lights", keeper.Owner, func(context.Context, string, string) error { return killed }); err == nil {
		t.Fatal("not killed")
	}
	c.want("in between", "light-0:1.0.0 channel light-1:1.0.0 channel light-2:1.0.0 channel")
	if out, err := c.install("1.0.0", 3); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	c.want("afterwards", "light-0:1.0.0 installer light-1:1.0.0 installer light-2:1.0.0 installer")
}

// A concurrent installer and channel end with one owner, who has all objects.
func TestInstallerAndChannelMeet(t *testing.T) {
	c := newOwnedCluster(t)
	if _, err := c.install("1.0.0", 20); err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		var wait sync.WaitGroup
		var out string
		var errInstall, errAdopt error
		wait.Go(func() { out, errInstall = c.install(fmt.Sprintf("1.0.%d", round+1), 20+round) })
		wait.Go(func() {
			time.Sleep(time.Duration(round) * 30 * time.Millisecond)
			errAdopt = c.applier.alone(c.Context(), io.Discard, func(ctx context.Context) error {
				_, err := c.applier.records.Adopt(ctx, "lights", addon.Installer(), keeper, c.channel.AdoptNamed)
				return err
			})
		})
		wait.Wait()
		if errInstall != nil || errAdopt != nil {
			t.Fatalf("round %d: %s, %v, %v", round, out, errInstall, errAdopt)
		}
		for name, light := range c.lights() {
			if !strings.HasSuffix(light, " channel") {
				t.Errorf("round %d: %s is %s", round, name, light)
			}
		}
		if _, err := c.applier.records.GiveBack(t.Context(), "lights", keeper.Owner, c.applier.engine.AdoptNamed); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLeaseFitsSlowHost(t *testing.T) {
	for _, times := range []float64{1, 1.5, 7.03} {
		slow := func(d time.Duration) time.Duration { return time.Duration(times * float64(d)) }
		o := leaseFor(slow)
		if o.Duration%time.Second != 0 || o.Duration < slow(leaseTime)-time.Second || o.Outage != slow(kube.DefaultApplyTimeout) {
			t.Errorf("%v times slower: others wait %v for a silent holder, and we %v for the API server", times, o.Duration, o.Outage)
		}
	}
}
