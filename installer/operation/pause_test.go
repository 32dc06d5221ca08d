package operation_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/record"
)

// pair is a cluster of two nodes that take a second for a stage.
type pair struct{ asked *[]string }

func (pair) List(context.Context) ([]cluster.Node, error) {
	return []cluster.Node{{Name: "a", Roles: []string{"control-plane"}}, {Name: "b"}}, nil
}

func (p pair) Apply(_ context.Context, name string, _ operation.Request) error {
	*p.asked = append(*p.asked, name)
	time.Sleep(time.Second)
	return nil
}

// led makes a run with one stage that asks both nodes in turn, and records of a fake cluster.
func led(asked *[]string) (*operation.Run, record.Store) {
	store := record.Store{Client: fake.NewClientset()}
	return &operation.Run{
		Own: "a", Nodes: pair{asked}, Records: operation.RecordsOf(func() (kubernetes.Interface, error) { return store.Client, nil }),
		Record: record.Record{ID: "1", Kind: "clock"}, Stages: []operation.Stage{{ID: "use", Nodes: operation.Everyone, AtOnce: 1, Pauses: true}},
	}, store
}

func edit(t *testing.T, s record.Store, change func(*record.Record)) {
	t.Helper()
	if err := s.Change(t.Context(), func(all record.All) error {
		r := all["clock"]
		r.Kind = "clock"
		change(&r)
		all["clock"] = r
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestPausedRunBeginsNoNode pauses while the first node works: that one ends, and its end does not resume the run.
func TestPausedRunBeginsNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		var told []bool
		run, store := led(&asked)
		run.OnPause = func(paused bool) { told = append(told, paused) }
		ended := make(chan error)
		go func() { ended <- run.Lead(t.Context(), "", nil, func(lifecycle.Event) {}) }()
		time.Sleep(time.Second / 2)
		edit(t, store, func(r *record.Record) { r.Paused = true })
		time.Sleep(time.Hour)
		if len(asked) != 1 || len(told) != 1 || !told[0] {
			t.Errorf("paused: asked %v, told %v", asked, told)
		}
		edit(t, store, func(r *record.Record) { r.Paused = false })
		if err := <-ended; err != nil || len(asked) != 2 || len(told) != 2 {
			t.Errorf("%v, asked %v, told %v", err, asked, told)
		}
	})
}

// TestEndedRecordStays is left by a run that another operation may undo, and is replaced by the next one.
func TestEndedRecordStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		run, store := led(&asked)
		run.Stays = true
		for _, id := range []string{"1", "1", "2"} {
			run.Record = record.Record{ID: id, Kind: "clock"}
			run.Choose = func(*record.Record) error { return nil }
			if err := run.Lead(t.Context(), "", nil, func(lifecycle.Event) {}); err != nil {
				t.Fatal(err)
			}
			all, err := store.Read(t.Context())
			if r := all["clock"]; err != nil || r.ID != id || r.Ended.IsZero() || r.Stage != "" || len(exclusion.UnderWay(all)) > 0 {
				t.Errorf("%+v, %v", all, err)
			}
		}
		if len(asked) != 6 {
			t.Errorf("asked %v", asked)
		}
	})
}

// TestFailureIsRecorded until the next run begins.
func TestFailureIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		run, store := led(&asked)
		broken := errors.New("no room")
		run.Stages[0].Before = func(context.Context) error { return broken }
		if err := run.Lead(t.Context(), "", nil, func(lifecycle.Event) {}); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		all, err := store.Read(t.Context())
		if err != nil || all["clock"].Error != "no room" {
			t.Errorf("%+v, %v", all, err)
		}
		run.Stages[0].Before = func(context.Context) error {
			if all, err = store.Read(t.Context()); err != nil || all["clock"].Error != "" {
				t.Errorf("%+v, %v", all, err)
			}
			return nil
		}
		run.Resume(all["clock"])
		if err := run.Lead(t.Context(), "", nil, func(lifecycle.Event) {}); err != nil {
			t.Error(err)
		}
	})
}

// TestRunEndsWhileItLeads has runs that end in all ways. What they have of their own is removed if no other run may use it by then.
func TestRunEndsWhileItLeads(t *testing.T) {
	broken := errors.New("no room")
	for name, row := range map[string]struct {
		refuse error
		before func(*record.Record) error
		ended  int
	}{
		"done":            {nil, func(*record.Record) error { return nil }, 1},
		"failed":          {nil, func(*record.Record) error { return broken }, 1},
		"never begun":     {broken, nil, 0},
		"led by another":  {nil, func(r *record.Record) error { r.Attempt++; return nil }, 0},
		"killed, or late": {nil, nil, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked []string
			run, store := led(&asked)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			run.Refuse = func(record.All) error { return row.refuse }
			run.Stages[0].Before = func(context.Context) (err error) {
				if row.before == nil {
					cancel()
					return nil
				}
				edit(t, store, func(r *record.Record) { err = row.before(r) })
				return err
			}
			ended := 0
			run.Ended = func() error {
				ended++
				return nil
			}
			err := run.Lead(ctx, "", nil, func(lifecycle.Event) {})
			if ended != row.ended || (err == nil) != (name == "done") {
				t.Errorf("%s: ended %d times, %v", name, ended, err)
			}
		})
	}
}

// TestLooseStageEndsWhenNothingElseHasBegun has a rotation begin while nothing of an upgrade is half done.
func TestLooseStageEndsWhenNothingElseHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		run, store := led(&asked)
		run.Record.Kind = record.Upgrade
		run.Refuse = func(all record.All) error { return exclusion.Refuse(exclusion.Upgrade, exclusion.UnderWay(all)) }
		run.Stages = []operation.Stage{{ID: "prepare", Loose: true, Before: func(ctx context.Context) error {
			return store.Change(ctx, func(all record.All) error {
				if err := exclusion.Refuse(exclusion.Keys, exclusion.UnderWay(all)); err != nil {
					t.Errorf("refused during a loose stage: %v", err)
				}
				all[record.Keys] = record.Record{ID: "2", Kind: record.Keys}
				return nil
			})
		}}, run.Stages[0]}
		excluded := new(exclusion.Error)
		if err := run.Lead(t.Context(), "", nil, func(lifecycle.Event) {}); !errors.As(err, &excluded) || len(asked) > 0 {
			t.Errorf("%v, asked %v", err, asked)
		}
	})
}
