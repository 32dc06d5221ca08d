package addon_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

var clock = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// cluster is a real API server with the records of add-ons.
type cluster struct {
	*testing.T
	configMaps dynamic.ResourceInterface
	addon.Records
}

func TestRecords(t *testing.T) {
	client, err := dynamic.NewForConfig(controlplane.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, configMaps: client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(addon.Namespace)}
	c.Records = addon.Records{ConfigMaps: c.configMaps, Now: func() time.Time { return clock }}
	for name, test := range map[string]func(*cluster){
		"kubectl reads a record":                 testColumns,
		"one of many who claim at once wins":     testRace,
		"a change is not lost to another":        testNoLostChange,
		"adopted and given back":                 testThereAndBack,
		"interrupted at every request":           testInterrupted,
		"a stranger's add-on is not handed over": testStranger,
		"what cannot be read is named":           testUnreadable,
		"without the namespace it ends":          testNoNamespace,
	} {
		t.Run(name, func(t *testing.T) {
			sub := *c
			sub.T = t
			test(&sub)
		})
	}
}

func byInstaller(name string) addon.Ownership {
	return addon.Ownership{Owner: addon.Installer(), Policy: addon.OnChange, Set: "sealift/" + name}
}

func byChannel(name string) addon.Ownership {
	return addon.Ownership{Owner: addon.Channel("kube-system", name), Policy: addon.OnChange, Set: "kube-system/addon-" + name}
}

// installed records an add-on as the installer does.
func (c *cluster) installed(name string) addon.Applied {
	c.Helper()
	applied := addon.Applied{Version: "1.0.0", Digest: "sha256:one", Options: "o1"}
	_, err := c.Claim(c.Context(), name, byInstaller(name))
	if err == nil {
		_, err = c.SetApplied(c.Context(), name, addon.Installer(), applied)
	}
	if err != nil {
		c.Fatal(err)
	}
	return applied
}

func (c *cluster) record(name string) addon.Record {
	c.Helper()
	record, found, err := c.Get(c.Context(), name)
	if err != nil || !found {
		c.Fatalf("the record of %s: %v, %v", name, found, err)
	}
	return record
}

// same compares records, whatever versions the API server gave them.
func (c *cluster) same(what string, got, want addon.Record) {
	c.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(addon.Record{})); diff != "" {
		c.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func testColumns(c *cluster) {
	c.installed("columns")
	list, err := c.configMaps.List(c.Context(), metav1.ListOptions{LabelSelector: "sealift.dev/record=addon,sealift.dev/owner=installer,sealift.dev/policy=OnChange"})
	if err != nil {
		c.Fatal(err)
	}
	at := slices.IndexFunc(list.Items, func(obj unstructured.Unstructured) bool { return obj.GetName() == "addon-columns" })
	if at < 0 {
		c.Fatalf("%d records, and none of columns", len(list.Items))
	}
	data, _, _ := unstructured.NestedStringMap(list.Items[at].Object, "data")
	want := map[string]string{"apiVersion": "sealift.dev/v1", "name": "columns", "owner": "installer", "policy": "OnChange", "set": "sealift/columns",
		"version": "1.0.0", "digest": "sha256:one", "options": "o1"}
	if diff := cmp.Diff(want, data); diff != "" {
		c.Error(diff)
	}
}

func testRace(c *cluster) {
	var wait sync.WaitGroup
	var mu sync.Mutex
	owners := map[string]int{}
	for i := range 8 {
		o := byInstaller("raced")
		if i%2 == 0 {
			o = byChannel("raced")
		}
		wait.Go(func() {
			record, err := c.Claim(c.Context(), "raced", o)
			mu.Lock()
			defer mu.Unlock()
			var owned *addon.OwnedError
			switch {
			case err == nil && record.Owner == o.Owner:
				owners[o.Owner.String()]++
			case !errors.As(err, &owned) || owned.Record.Owner == o.Owner:
				c.Errorf("%s: %v", o.Owner, err)
			}
		})
	}
	wait.Wait()
	if len(owners) != 1 || owners[c.record("raced").Owner.String()] != 4 {
		c.Errorf("owners %v, on record %s", owners, c.record("raced").Owner)
	}
}

// The installer records what it applied while a channel adopts: neither write may undo the other.
func testNoLostChange(c *cluster) {
	c.installed("busy")
	var wait sync.WaitGroup
	var noted, adopted error
	wait.Go(func() {
		for i := range 20 {
			if _, noted = c.SetApplied(c.Context(), "busy", addon.Installer(), addon.Applied{Version: strconv.Itoa(i)}); noted != nil {
				return
			}
		}
	})
	wait.Go(func() { _, adopted = c.Adopt(c.Context(), "busy", addon.Installer(), byChannel("busy"), nothing) })
	wait.Wait()
	if adopted != nil {
		c.Fatal(adopted)
	}
	var owned *addon.OwnedError
	if noted != nil && !errors.As(noted, &owned) {
		c.Error(noted)
	}
	record := c.record("busy")
	if record.Owner != byChannel("busy").Owner || len(record.History) != 1 || record.History[0].Version != record.Version {
		c.Errorf("%+v", record)
	}
}

func nothing(context.Context, string, string) error { return nil }

func testThereAndBack(c *cluster) {
	applied := c.installed("wanders")
	var moves []string
	move := func(_ context.Context, from, to string) error {
		moves = append(moves, from+" to "+to)
		if c.record("wanders").Moving != from {
			c.Error("objects move before the handover is on record")
		}
		return nil
	}
	record, err := c.Adopt(c.Context(), "wanders", addon.Installer(), byChannel("wanders"), move)
	if err != nil {
		c.Fatal(err)
	}
	first := byInstaller("wanders")
	first.Applied = applied
	second := byChannel("wanders")
	second.Applied = applied
	c.same("adopted", record, addon.Record{Name: "wanders", Ownership: second, History: []addon.Past{{Ownership: first, Until: clock}}})
	c.same("as read", c.record("wanders"), record)
	var owned *addon.OwnedError
	if _, err := c.Claim(c.Context(), "wanders", byInstaller("wanders")); !errors.As(err, &owned) || owned.Record.Owner != second.Owner {
		c.Errorf("the installer takes it back: %v", err)
	}
	newer := addon.Applied{Version: "2.0.0", Digest: "sha256:two"}
	if _, err := c.SetApplied(c.Context(), "wanders", second.Owner, newer); err != nil {
		c.Fatal(err)
	}
	for range 2 { // the second time there is nothing left to do
		if record, err = c.GiveBack(c.Context(), "wanders", second.Owner, move); err != nil {
			c.Fatal(err)
		}
	}
	// Who owns it has changed, and not what runs.
	first.Applied, second.Applied = newer, newer
	before := byInstaller("wanders")
	before.Applied = applied
	c.same("given back", record, addon.Record{Name: "wanders", Ownership: first, Released: &second.Owner,
		History: []addon.Past{{Ownership: before, Until: clock}, {Ownership: second, Until: clock}}})
	want := []string{"sealift/wanders to kube-system/addon-wanders", "kube-system/addon-wanders to sealift/wanders"}
	if diff := cmp.Diff(want, moves); diff != "" {
		c.Error(diff)
	}
}

var errKilled = errors.New("killed")

// failingServer makes requests fail from one on: the last one may take effect, but no response arrives.
type failingServer struct {
	addon.ConfigMaps
	left   *int
	effect bool
}

func (d failingServer) Get(ctx context.Context, name string, o metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	return d.hit(func() (*unstructured.Unstructured, error) { return d.ConfigMaps.Get(ctx, name, o) })
}

func (d failingServer) Update(ctx context.Context, obj *unstructured.Unstructured, o metav1.UpdateOptions, _ ...string) (*unstructured.Unstructured, error) {
	return d.hit(func() (*unstructured.Unstructured, error) { return d.ConfigMaps.Update(ctx, obj, o) })
}

func (d failingServer) hit(request func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	*d.left--
	if *d.left > 0 {
		return request()
	}
	if *d.left == 0 && d.effect {
		_, _ = request()
	}
	return nil, errKilled
}

// Whatever request the process dies at, the same call finishes the handover, and each object has moved there and back.
func testInterrupted(c *cluster) {
	interrupted := 0
	for at := 1; ; at++ {
		for _, effect := range []bool{false, true} {
			name := fmt.Sprintf("killed-%d-%v", at, effect)
			c.installed(name)
			where := "sealift/" + name
			move := func(_ context.Context, _, to string) error { where = to; return nil }
			left := at
			first := addon.Records{ConfigMaps: failingServer{c.configMaps, &left, effect}}
			_, errThere := first.Adopt(c.Context(), name, addon.Installer(), byChannel(name), move)
			record, err := c.Adopt(c.Context(), name, addon.Installer(), byChannel(name), move)
			if err != nil || where != "kube-system/addon-"+name || record.Owner.Kind != addon.ChannelKind || record.Moving != "" || len(record.History) != 1 {
				c.Errorf("adopted after request %d (effect %v): objects in %s, %+v, %v", at, effect, where, record, err)
			}
			left = at
			_, errBack := first.GiveBack(c.Context(), name, byChannel(name).Owner, move)
			record, err = c.GiveBack(c.Context(), name, byChannel(name).Owner, move)
			if err != nil || where != "sealift/"+name || record.Owner != addon.Installer() || record.Moving != "" || len(record.History) != 2 {
				c.Errorf("given back after request %d (effect %v): objects in %s, %+v, %v", at, effect, where, record, err)
			}
			if errThere == nil && errBack == nil {
				if interrupted < 10 {
					c.Errorf("only %d handovers were interrupted", interrupted)
				}
				return
			}
			interrupted += 2
		}
	}
}

func testStranger(c *cluster) {
	fail := func(context.Context, string, string) error { return errors.New("objects were moved") }
	if _, err := c.Adopt(c.Context(), "unknown", addon.Installer(), byChannel("unknown"), fail); err == nil || err.Error() != `add-on "unknown" has no owner on record` {
		c.Errorf("without a record: %v", err)
	}
	theirs := addon.Ownership{Owner: addon.Owner{Kind: "fleet", Name: "hub/west"}, Policy: addon.Continuous, Set: "fleet/dns"}
	if _, err := c.Claim(c.Context(), "theirs", theirs); err != nil {
		c.Fatal(err)
	}
	var owned *addon.OwnedError
	if _, err := c.Adopt(c.Context(), "theirs", addon.Installer(), byChannel("theirs"), fail); !errors.As(err, &owned) || owned.Record.Owner != theirs.Owner {
		c.Errorf("another's: %v", err)
	}
	if _, err := c.GiveBack(c.Context(), "theirs", theirs.Owner, fail); err == nil {
		c.Error("an add-on that nobody had before was given back")
	}
	c.same("afterwards", c.record("theirs"), addon.Record{Name: "theirs", Ownership: theirs})
}

func testUnreadable(c *cluster) {
	c.installed("fine")
	c.installed("spoilt")
	for key, value := range map[string]string{"apiVersion": "sealift.dev/v9", "policy": "Sometimes", "owner": "", "set": "", "history": "{", "released": " "} {
		obj, err := c.configMaps.Get(c.Context(), "addon-spoilt", metav1.GetOptions{})
		if err != nil {
			c.Fatal(err)
		}
		whole := obj.DeepCopy()
		if err := unstructured.SetNestedField(obj.Object, value, "data", key); err != nil {
			c.Fatal(err)
		}
		if obj, err = c.configMaps.Update(c.Context(), obj, metav1.UpdateOptions{}); err != nil {
			c.Fatal(err)
		}
		records, err := c.List(c.Context())
		if len(records) == 0 || err == nil {
			c.Errorf("%s %q: %d records, %v", key, value, len(records), err)
		}
		if _, err := c.Claim(c.Context(), "spoilt", byChannel("spoilt")); err == nil || errors.As(err, new(*addon.OwnedError)) {
			c.Errorf("%s %q: %v", key, value, err)
		}
		whole.SetResourceVersion(obj.GetResourceVersion())
		if _, err := c.configMaps.Update(c.Context(), whole, metav1.UpdateOptions{}); err != nil {
			c.Fatal(err)
		}
	}
	if _, err := c.List(c.Context()); err != nil {
		c.Error(err)
	}
}

// noNamespace answers as an API server that has no kube-system.
type noNamespace struct{ addon.ConfigMaps }

func (n noNamespace) Create(context.Context, *unstructured.Unstructured, metav1.CreateOptions, ...string) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, addon.Namespace)
}

func testNoNamespace(c *cluster) {
	records := addon.Records{ConfigMaps: noNamespace{c.configMaps}}
	if _, err := records.Claim(c.Context(), "lost", byInstaller("lost")); !apierrors.IsNotFound(err) {
		c.Error(err)
	}
}
