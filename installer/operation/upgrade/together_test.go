package upgrade

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/installer/recovery/undo"
)

// goers are nodes that take a second for their part of an undo.
type goers struct {
	listed
	fails string
	mu    *sync.Mutex
	parts *[]string
}

func (g goers) does(what string) error {
	g.mu.Lock()
	*g.parts = append(*g.parts, what)
	g.mu.Unlock()
	time.Sleep(time.Second)
	if what == g.fails {
		return errBroken
	}
	return nil
}

func (g goers) Apply(_ context.Context, name string, r operation.Request) error {
	_, stage, _ := strings.Cut(r.Stage, "/")
	return g.does(stage + " " + name)
}

// TestJointUndoCommitsWhenAllArePrepared lets one part fail in each run. The order says Committed only in the last one, where all went well.
func TestJointUndoCommitsWhenAllArePrepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := undo.Store{Root: t.TempDir(), Rootfs: t.TempDir()}.Keep("fedcba9876543210", "1.35.4", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		client := fake.NewClientset()
		records := operation.RecordsOf(func() (kubernetes.Interface, error) { return client, nil })
		member := func(name string) cluster.EtcdMember {
			return cluster.EtcdMember{Name: name, Peers: []string{"https://" + name + ":2380"}}
		}
		var nodes []cluster.Node
		for _, name := range []string{"a", "b", "c", "w1", "w2", "w3"} {
			n := cluster.Node{Name: name, Ready: true}
			if !strings.HasPrefix(name, "w") {
				n.Roles = []string{"control-plane"}
			}
			nodes = append(nodes, n)
		}
		for n, row := range []struct{ fails, want string }{
			{"own", "own"},
			{"prepare c", "own, prepare a, prepare c"},
			{"workers w1", "own, prepare a, prepare c, workers w1"},
			{"", "own, prepare a, prepare c, workers w1, workers w3"},
		} {
			u := &Undo{Set: set, Nodes: []string{"w1", "w3"}, own: "b", order: &undo.JointUndo{ID: strings.Repeat(string(rune('a'+n)), 16), Upgrade: set.Upgrade, Leader: "b", Server: "10.0.0.1:6445",
				Snapshot: strings.Repeat("a", 64), Stage: undo.Prepared, Members: []cluster.EtcdMember{member("a"), member("b"), member("c")}}}
			g := goers{listed{nodes}, row.fails, new(sync.Mutex), new([]string)}
			err := u.plan(records, g, func(context.Context) error { return g.does("own") }).Lead(t.Context(), "", nil, func(lifecycle.Event) {})
			slices.Sort((*g.parts)[min(1, len(*g.parts)):min(3, len(*g.parts))])
			if got := strings.Join(*g.parts, ", "); got != row.want || errors.Is(err, errBroken) != (row.fails != "") || row.fails == "" && err != nil {
				t.Errorf("%q fails: %s, %v", row.fails, got, err)
			}
			o, there, err := set.Order()
			if want := map[bool]undo.Stage{true: undo.Prepared, false: undo.Committed}[row.fails != ""]; err != nil || !there || o.Stage != want || o.ID != u.order.ID {
				t.Errorf("%q fails: order %+v, %t, %v", row.fails, o, there, err)
			}
			all, err := records.Read(t.Context())
			if r := all[record.Undo]; err != nil || r.ID != u.order.ID || !r.Waits || (r.Error != "") != (row.fails != "") {
				t.Errorf("%q fails: record %+v, %v", row.fails, r, err)
			}
		}
	})
}
