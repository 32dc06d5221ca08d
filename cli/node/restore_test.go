package node

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/installer/recovery/undo"
)

func TestLostObjectsAreNamedBeforeTheQuestion(t *testing.T) {
	at := time.Date(2026, 11, 27, 15, 0, 0, 0, time.UTC)
	from := &snapshot.Loaded{Content: &snapshot.Content{Index: snapshot.Index{Time: at, Etcd: snapshot.Etcd{Revision: 7}}}}
	var many []string
	for i := range namedObjects + 3 {
		many = append(many, fmt.Sprintf("pods/default/p%d", i))
	}
	const since = "lost: what was written after 2026-11-27T15:00:00Z, revision 7 of etcd"
	for _, row := range []struct {
		name string
		lost restore.Lost
		from *snapshot.Loaded
		want string
	}{
		{"a survivor", restore.Lost{}, nil, "lost: only what other control planes wrote in their last moments and did not send to this host"},
		{"nothing", restore.Lost{}, from, since},
		{"unknown", restore.Lost{Unknown: "its data is gone"}, from, since + "\n  its data is gone"},
		{"one of each", restore.Lost{Created: []string{"a"}, Changed: []string{"b"}, Deleted: []string{"c"}}, from, since + "\n  is removed: a\n  goes back: b\n  comes back: c"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := lossOf(row.lost, row.from); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
	if got := lostObjects(restore.Lost{Created: many}); len(got) != namedObjects+1 || !strings.HasSuffix(got[namedObjects], "is removed: 3 more; --plan -o json names them") {
		t.Errorf("of many, %d lines, the last %q", len(got), got[len(got)-1])
	}
}

func TestFlagsOfARestoreMustGoTogether(t *testing.T) {
	for _, row := range []struct {
		name, snapshot, want string
		o                    restoreOptions
	}{
		{"a snapshot", "x", "", restoreOptions{}},
		{"a survivor", "", "", restoreOptions{survivor: true}},
		{"a survivor with a snapshot", "x", "leave out x", restoreOptions{survivor: true}},
		{"volumes of a drill", "", "--volumes writes nothing but volumes", restoreOptions{volumes: true, drill: true}},
		{"a drill of a survivor", "", "--drill changes nothing", restoreOptions{drill: true, survivor: true}},
		{"an address without a bundle", "", "--address is that of a new host", restoreOptions{address: "10.0.0.9"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := row.o.check(row.snapshot)
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

func TestRestoreWaitsForUnfinishedUndo(t *testing.T) {
	root := t.TempDir()
	options := (commands{App: &app.App{Err: io.Discard}}).restoreHere(root)
	if err := options.Excluded(t.Context()); err != nil {
		t.Errorf("without one: %v", err)
	}
	set, err := undo.Store{Root: root, Rootfs: t.TempDir()}.Keep("fedcba9876543210", "1.35.4", time.Now())
	if err == nil {
		err = set.WriteOrder(undo.JointUndo{ID: "0123456789abcdef", Upgrade: set.Upgrade, Leader: "host-1", Server: "10.0.0.1:6445", Snapshot: strings.Repeat("a", 64), Stage: undo.Committed,
			Members: []cluster.EtcdMember{{Name: "host-1", Peers: []string{"https://10.0.0.1:2380"}}, {Name: "host-2", Peers: []string{"https://10.0.0.2:2380"}}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	err = options.Excluded(t.Context())
	if refused, ok := errors.AsType[*exclusion.Error](err); !ok || refused.Operation != exclusion.Undo {
		t.Errorf("got %v", err)
	}
}
