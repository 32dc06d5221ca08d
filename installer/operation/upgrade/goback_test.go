package upgrade

import (
	"errors"
	"reflect"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/installer/recovery/undo"
)

// TestWorkerThatWentBackIsUpgradedAgain has an undo end after one worker. The upgrade goes on from wherever it was, and brings that worker
// to the new version again.
func TestWorkerThatWentBackIsUpgradedAgain(t *testing.T) {
	for _, row := range []struct{ fails, back, want string }{
		{"w2", "w1", "prepare-own | prepare-w1 | w1 | w2 | w3 | add-ons"},
		{"w2", "w3", "prepare-own | w2 | prepare-w3 | w3 | add-ons"},
		{"", "w3", "prepare-own | prepare-w3 | w3 | add-ons"},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewClientset()
			m := newModel(t, client, "b", 1)
			m.fails = row.fails
			if err := m.leads(t.Context()); (err != nil) != (row.fails != "") {
				t.Fatal(err)
			}
			store := record.Store{Client: client}
			before, err := store.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, other := range []struct{ upgrade, node string }{{"other", row.back}, {"whole", "new"}} {
				if err := store.Change(t.Context(), func(all record.All) error { return beginsAgain(all, undo.Set{Upgrade: other.upgrade}, other.node) }); err != nil {
					t.Error(err)
				}
				if all, err := store.Read(t.Context()); err != nil || !reflect.DeepEqual(all, before) {
					t.Errorf("%s of %s: %+v, %v", other.node, other.upgrade, all, err)
				}
			}
			if err := store.Change(t.Context(), func(all record.All) error { return beginsAgain(all, undo.Set{Upgrade: "whole"}, row.back) }); err != nil {
				t.Fatal(err)
			}
			all, err := store.Read(t.Context())
			if s := m.has(); err != nil || s.Phase != Nodes || s.Nodes[row.back].Stage != Waiting || !s.Ended.IsZero() {
				t.Errorf("%+v, %v", s, err)
			}
			if was, is := exclusion.UnderWay(before), exclusion.UnderWay(all); len(was) != len(is) {
				t.Errorf("half done before %v, and now %v", was, is)
			}
			m = newModel(t, client, "a", 1)
			err = m.leads(t.Context())
			if got := m.story(); got != row.want || err != nil {
				t.Errorf("%s went back: %s, %v", row.back, got, err)
			}
			if s := m.has(); s.Phase != Finished || s.Nodes[row.back].Stage != Done || s.Ended.IsZero() {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestUpgradeGoesOnFromNoOlderVersion is at its second minor version when a worker went back to before the first one.
func TestUpgradeGoesOnFromNoOlderVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		m := newModel(t, client, "b", 1)
		m.fails = "w2"
		if err := m.leads(t.Context()); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		for version, want := range map[string]string{"v1.34.4": "node w1 is back at Kubernetes 1.34.4, and this upgrade goes on from 1.35.4", "v1.35.4": ""} {
			m = newModel(t, client, "b", 1)
			m.nodes[3].Version = version
			refusal(t, version, m.led.Begin(t.Context()), want)
		}
	})
}
