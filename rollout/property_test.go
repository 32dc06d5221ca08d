package rollout_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/sealift/sealift/rollout"
)

// world is a made-up fleet. It knows what really happens, which the rollout sees late.
type world struct {
	rand    *rand.Rand
	spec    rollout.Spec
	targets []rollout.Target
	end     []rollout.Status // what becomes of each target
	seen    []rollout.Target // the rollout's view
	state   []byte           // the caller's stored state
	stored  []byte           // its state after it was killed
	now     time.Time
	late    map[string]bool
}

func newWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &world{rand: r, now: noon, state: []byte("{}"), stored: []byte("{}"), late: map[string]bool{}, spec: rollout.Spec{
		Change:   "one",
		Soak:     time.Duration(r.IntN(3)) * time.Second,
		Deadline: new(time.Duration(5+r.IntN(5)) * time.Second),
	}}
	for range 1 + r.IntN(3) {
		w.spec.Waves = append(w.spec.Waves, rollout.Wave{
			AtOnce:      rollout.Amount{Value: 1 + r.IntN(4)},
			MaxFailures: rollout.Amount{Value: r.IntN(60), Percent: true},
			Mandatory:   r.IntN(4) == 0,
		})
	}
	for i := range r.IntN(25) {
		w.targets = append(w.targets, rollout.Target{
			Name: fmt.Sprint("t", i), Wave: r.IntN(len(w.spec.Waves)), Order: r.IntN(2), Status: rollout.Waiting,
		})
		end := rollout.Succeeded
		switch r.IntN(12) {
		case 0:
			end = rollout.Failed
		case 1:
			end = rollout.Working
		}
		w.end = append(w.end, end)
	}
	w.seen = append(w.seen, w.targets...)
	return w
}

// tick advances a second: work continues, some of it becomes visible, and targets change places.
func (w *world) tick() {
	w.now = w.now.Add(time.Second)
	for i := range w.targets {
		t := &w.targets[i]
		if t.Status == rollout.Working && w.end[i] != rollout.Working && w.rand.IntN(3) == 0 {
			t.Status, t.Since = w.end[i], w.now
		}
		if w.rand.IntN(5) == 0 {
			t.Order = w.rand.IntN(2)
		}
		if w.rand.IntN(3) > 0 {
			w.seen[i] = *t
		}
	}
}

// atWork counts the targets that are really in progress. One that ever timed out does not count: it released its slot, and may
// recover at any time.
func (w *world) atWork() int {
	n := 0
	for _, t := range w.targets {
		if w.late[t.Name] {
			continue
		}
		switch t.Status {
		case rollout.Working, rollout.Failed:
			n++
		case rollout.Succeeded:
			if w.now.Sub(t.Since) < w.spec.Soak {
				n++
			}
		}
	}
	return n
}

// decide calls three times: as is, in another order, and with a state that was not stored in between. All must agree.
func (w *world) decide(t *testing.T) rollout.Result {
	t.Helper()
	var state rollout.State
	if err := json.Unmarshal(w.state, &state); err != nil {
		t.Fatal(err)
	}
	got, err := rollout.Decide(w.spec, w.seen, state, w.now)
	if err != nil {
		t.Fatal(err)
	}
	if after, _ := json.Marshal(state); string(after) != string(w.state) {
		t.Fatalf("Decide changed the state that it was given:\n%s\n%s", w.state, after)
	}
	shuffled := append([]rollout.Target(nil), w.seen...)
	w.rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	again, err := rollout.Decide(w.spec, shuffled, state, w.now)
	if err != nil || !reflect.DeepEqual(got, again) {
		t.Fatalf("the order of targets matters: %v\n%+v\n%+v", err, got, again)
	}
	stored, err := json.Marshal(got.State)
	if err != nil {
		t.Fatal(err)
	}
	w.state = stored
	var before rollout.State
	if err := json.Unmarshal(w.stored, &before); err != nil {
		t.Fatal(err)
	}
	if got.MustStore(before) || w.rand.IntN(10) == 0 {
		w.stored = stored
	}
	var back rollout.State
	if err := json.Unmarshal(stored, &back); err != nil {
		t.Fatal(err)
	}
	direct, err1 := rollout.Decide(w.spec, w.seen, got.State, w.now)
	read, err2 := rollout.Decide(w.spec, w.seen, back, w.now)
	if err1 != nil || err2 != nil || !reflect.DeepEqual(asJSON(t, direct), asJSON(t, read)) {
		t.Fatalf("the stored state decides otherwise: %v %v\n%+v\n%+v", err1, err2, direct, read)
	}
	if print(direct) != print(got) {
		t.Fatalf("the same question has another answer:\n%s\n%s", print(got), print(direct))
	}
	for _, d := range got.Targets {
		if d.Status == rollout.TimedOut {
			w.late[d.Name] = true
		}
	}
	return got
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRolloutsEnd runs 400 random rollouts. The caller is killed at random moments, before and after it acts, stores little more
// than it must, and sees its targets late. A watcher never sees more than AtOnce in progress, and every rollout ends.
func TestRolloutsEnd(t *testing.T) {
	phases := map[rollout.Phase]int{}
	for seed := range uint64(400) {
		w := newWorld(seed)
		var got rollout.Result
		for round := 0; ; round++ {
			got = w.decide(t)
			if round > 2000 {
				t.Fatalf("seed %d: the rollout has no end: %s %s", seed, got.Phase, print(got))
			}
			if w.rand.IntN(10) > 0 {
				w.act(t, seed, got)
			}
			if killed := w.rand.IntN(10) == 0; killed {
				w.state = w.stored
			}
			idle := got.Phase == rollout.Stopped && got.Again.IsZero() && len(got.With(rollout.Start)) == 0
			if got.Phase == rollout.Done || got.Phase == rollout.Ended || idle {
				break
			}
			w.tick()
		}
		phases[got.Phase]++
		for i, d := range got.Targets {
			if got.Phase == rollout.Done && d.Status != rollout.Succeeded {
				t.Fatalf("seed %d: done, but target %d is %s", seed, i, d.Status)
			}
		}
	}
	t.Logf("how 400 rollouts ended: %v", phases)
	for _, phase := range []rollout.Phase{rollout.Done, rollout.Ended, rollout.Stopped} {
		if phases[phase] < 20 {
			t.Errorf("only %d rollouts ended as %s", phases[phase], phase)
		}
	}
}

// act starts what may start, and checks how many are then in progress.
func (w *world) act(t *testing.T, seed uint64, got rollout.Result) {
	t.Helper()
	was := w.atWork()
	for _, name := range got.With(rollout.Start) {
		for i := range w.targets {
			if w.targets[i].Name == name && w.targets[i].Status == rollout.Waiting {
				w.targets[i].Status, w.targets[i].Since = rollout.Working, w.now
			}
		}
	}
	most := was
	for _, d := range got.Targets {
		if d.Action == rollout.Start {
			most = max(most, w.spec.Waves[d.Wave].AtOnce.Value)
		}
	}
	if is := w.atWork(); is > most {
		t.Fatalf("seed %d: %d at work, at most %d may be: %s", seed, is, most, print(got))
	}
}

// FuzzDecide feeds any spec, targets and state: Decide refuses them, or its answer keeps the rules.
func FuzzDecide(f *testing.F) {
	f.Add([]byte(`{"Waves":[{"AtOnce":1}],"Soak":5}`), []byte(`[{"Name":"a","Status":"Waiting"}]`), []byte(`{}`), int64(0))
	f.Add([]byte(`{"Waves":[{"AtOnce":"9999999999%"}],"Deadline":0}`), []byte(`[{"Name":"a","Status":"Working","Occasional":true}]`),
		[]byte(`{"targets":{"a":{"status":"Working","contact":9223372036854775807}}}`), int64(1)<<62)
	f.Fuzz(func(t *testing.T, specText, targetsText, stateText []byte, seconds int64) {
		var spec rollout.Spec
		var targets []rollout.Target
		var state rollout.State
		if json.Unmarshal(specText, &spec) != nil || json.Unmarshal(targetsText, &targets) != nil || json.Unmarshal(stateText, &state) != nil {
			return
		}
		now := time.Unix(seconds%(1<<33), 0).UTC()
		got, err := rollout.Decide(spec, targets, state, now)
		if err != nil {
			return
		}
		if len(got.Targets) != len(targets) {
			t.Fatalf("%d decisions for %d targets", len(got.Targets), len(targets))
		}
		if spec.Paused && state.Targets == nil && len(got.With(rollout.Start)) > 0 {
			t.Fatal("a target starts although the rollout is paused")
		}
		again, err := rollout.Decide(spec, targets, got.State, now)
		if err != nil || print(again) != print(got) {
			t.Fatalf("the same question has another answer: %v\n%s\n%s", err, print(got), print(again))
		}
	})
}
