package undo_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/recovery/undo"
)

func order() undo.JointUndo {
	return undo.JointUndo{
		ID: "0123456789abcdef", Upgrade: "fedcba9876543210", Leader: "host-1", Server: "10.0.0.1:6445", Snapshot: strings.Repeat("a", 64), Stage: undo.Prepared,
		Members: []cluster.EtcdMember{{Name: "host-1", Peers: []string{"https://10.0.0.1:2380"}}, {Name: "host-2", Peers: []string{"https://10.0.0.2:2380"}}},
	}
}

func TestOrderIsTheSameInEveryStage(t *testing.T) {
	t.Parallel()
	o := order()
	for _, stage := range []undo.Stage{undo.Prepared, undo.Committed, undo.Restored} {
		got, err := undo.ParseOrder(o.In(stage).Encode())
		if diff := cmp.Diff(o.In(stage), got); err != nil || diff != "" || got.Digest() != o.Digest() {
			t.Errorf("%s: %v\n%s", stage, err, diff)
		}
	}
	other := order()
	other.Members[1].Peers = []string{"https://10.0.0.3:2380"}
	if other.Digest() == o.Digest() {
		t.Error("another member has the same digest")
	}
}

func TestInvalidOrdersAreRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*undo.JointUndo){
		"no ID":                  func(o *undo.JointUndo) { o.ID = "" },
		"an ID that is a path":   func(o *undo.JointUndo) { o.ID = "../../etc/passwd" },
		"no upgrade":             func(o *undo.JointUndo) { o.Upgrade = "" },
		"no snapshot":            func(o *undo.JointUndo) { o.Snapshot = "abcd" },
		"no stage":               func(o *undo.JointUndo) { o.Stage = "" },
		"an unknown stage":       func(o *undo.JointUndo) { o.Stage = "later" },
		"a leader from outside":  func(o *undo.JointUndo) { o.Leader = "host-3" },
		"a single member":        func(o *undo.JointUndo) { o.Members = o.Members[:1] },
		"a member twice":         func(o *undo.JointUndo) { o.Members[1].Name = "host-1" },
		"a member without URLs":  func(o *undo.JointUndo) { o.Members[1].Peers = nil },
		"a member without name":  func(o *undo.JointUndo) { o.Members[1].Name = "" },
		"a server without port":  func(o *undo.JointUndo) { o.Server = "10.0.0.1" },
		"more than one could be": func(o *undo.JointUndo) { o.Server = strings.Repeat("x", 100<<10) + ":1" },
	} {
		o := order()
		spoil(&o)
		if got, err := undo.ParseOrder(o.Encode()); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestOtherWorkWaitsForCommittedUndo keeps an order beside a set, until the set is removed.
func TestOtherWorkWaitsForCommittedUndo(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	if err := os.Remove(lifecycle.JournalFile(node.StateDir(h.Root))); err != nil { // it is none
		t.Fatal(err)
	}
	if _, _, ok, err := h.Ordered(); ok || err != nil {
		t.Errorf("without a set: %t, %v", ok, err)
	}
	set, err := h.Keep("fedcba9876543210", "1.35.4", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	keep := func(o undo.JointUndo) {
		t.Helper()
		if err := set.WriteOrder(o); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(want bool) {
		t.Helper()
		if err := (exclusion.Host{Root: h.Root}).Check(t.Context(), nil, exclusion.Upgrade); (err != nil) != want || want && !strings.Contains(err.Error(), "run 'sealift upgrade undo' on host-1") {
			t.Errorf("%v, want a refusal: %t", err, want)
		}
	}
	wait(false)
	keep(order())
	wait(false)
	keep(order().In(undo.Committed))
	wait(true)
	if found, o, ok, err := h.Ordered(); !ok || err != nil || found.Upgrade != set.Upgrade || o.Stage != undo.Committed {
		t.Errorf("%+v, %+v, %t, %v", found, o, ok, err)
	}
	other := order()
	other.Upgrade = "0000000000000000"
	keep(other)
	if _, _, err := set.Order(); err == nil {
		t.Error("an order about another upgrade is followed")
	}
	if err := errors.Join(set.DropOrder(), set.DropOrder()); err != nil {
		t.Error(err)
	}
	wait(false)
	keep(order().In(undo.Restored))
	if err := set.Remove(); err != nil {
		t.Fatal(err)
	}
	wait(false)
}

// TestUndoKnowsThatDataAreBack notes it beside a set, until the set is removed.
func TestUndoKnowsThatDataAreBack(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for range 2 { // another set of the same upgrade knows nothing of it
		set, err := h.Keep("fedcba9876543210", "1.35.4", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []bool{false, true} {
			if got, err := set.IsRestored(); got != want || err != nil {
				t.Errorf("restored: %t, %v, want %t", got, err, want)
			}
			if err := set.MarkRestored(); err != nil {
				t.Fatal(err)
			}
		}
		if err := set.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := (undo.Set{}).IsRestored(); got || err != nil {
		t.Errorf("no set is restored: %t, %v", got, err)
	}
}

// TestProgramIsRestoredLast keeps the program that began an undo until Sealift's own state is restored.
func TestProgramIsRestoredLast(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.write(node.Binary, "sealift 1", 0o755)
	set, err := h.Keep("fedcba9876543210", "1.35.4", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h.write(node.Binary, "sealift 2", 0o755)
	program(t, h, set, false, "sealift 2")
	program(t, h, set, true, "sealift 1")
}

func program(t *testing.T, h host, set undo.Set, own bool, want string) {
	t.Helper()
	if _, err := h.PutBack(set, own); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(h.Rootfs, node.Binary)); err != nil || string(text) != want {
		t.Errorf("the program is %q, %v, want %q", text, err, want)
	}
}

func FuzzParseOrder(f *testing.F) {
	f.Add(order().Encode())
	f.Add([]byte(`{"members":[{"name":"x"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := undo.ParseOrder(text)
		if err != nil {
			return
		}
		if again, err := undo.ParseOrder(o.Encode()); err != nil || !cmp.Equal(o, again) {
			t.Errorf("%q became %+v, and then %+v, %v", text, o, again, err)
		}
	})
}
