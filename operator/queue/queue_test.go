package queue_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/queue"
)

// runLog records what ran when, on the clock of a synctest bubble.
type runLog struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func (d *runLog) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf("%s ", time.Since(d.start).Truncate(time.Second))+fmt.Sprintf(format, args...))
}

func (d *runLog) is(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(d.lines, ", "), strings.Join(want, ", "))
	}
}

// bubble runs a set for a test in a bubble, whose clock jumps ahead when all wait.
func bubble(t *testing.T, set *queue.Set, test func(d *runLog)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := &runLog{start: time.Now()}
		over := make(chan struct{})
		go func() { set.Run(ctx); close(over) }()
		synctest.Wait()
		test(d)
		cancel()
		<-over
	})
}

func takes(d *runLog, name string, how time.Duration) *queue.Task {
	return &queue.Task{Name: name, Do: func(context.Context, *queue.Queue, *queue.Task) error {
		time.Sleep(how)
		d.note("%s", name)
		return nil
	}}
}

func TestQueuesRunConcurrentlyAndTasksInOrder(t *testing.T) {
	set := &queue.Set{}
	bubble(t, set, func(d *runLog) {
		set.Add("main", takes(d, "a", 3*time.Second), takes(d, "b", time.Second))
		set.Add("other", takes(d, "c", 2*time.Second))
		time.Sleep(time.Minute)
		set.Add("main", takes(d, "d", time.Second))
		time.Sleep(time.Minute)
		d.is(t, "2s c", "3s a", "4s b", "1m1s d")
	})
}

func TestFailingTaskStaysAtHead(t *testing.T) {
	set := &queue.Set{Delay: func(failed int) time.Duration { return time.Duration(10*(failed+1)) * time.Second }}
	bubble(t, set, func(d *runLog) {
		left := 2
		set.Add("main", &queue.Task{Name: "bad", Do: func(_ context.Context, _ *queue.Queue, t *queue.Task) error {
			d.note("try %d", t.Failures()+1)
			if left--; left >= 0 {
				return errors.New("no luck")
			}
			return nil
		}}, takes(d, "after", 0))
		time.Sleep(15 * time.Second)
		state := set.States()[0]
		if head := state.Tasks[0]; head.Failures != 2 || head.Error != "no luck" || len(state.Tasks) != 2 {
			t.Errorf("%+v", state)
		}
		set.Wake("main") // 15 seconds early
		time.Sleep(time.Minute)
		d.is(t, "0s try 1", "10s try 2", "15s try 3", "15s after")
	})
}

func TestFailingTaskMayYield(t *testing.T) {
	set := &queue.Set{Delay: func(int) time.Duration { return 10 * time.Second }}
	bubble(t, set, func(d *runLog) {
		var yields atomic.Bool
		fails := 2
		set.Add("main", &queue.Task{Name: "fails", Yields: yields.Load, Do: func(context.Context, *queue.Queue, *queue.Task) error {
			d.note("fails")
			if fails--; fails > 0 {
				return errors.New("no")
			}
			return nil
		}}, takes(d, "behind", time.Second))
		time.Sleep(5 * time.Second)
		yields.Store(true)
		time.Sleep(time.Minute)
		d.is(t, "0s fails", "11s behind", "11s fails")
		left := 2
		set.Add("main", &queue.Task{Name: "alone", Yields: func() bool { return true }, Do: func(context.Context, *queue.Queue, *queue.Task) error {
			d.note("alone")
			if left--; left > 0 {
				return errors.New("no")
			}
			return nil
		}})
		time.Sleep(time.Minute)
		d.is(t, "0s fails", "11s behind", "11s fails", "1m5s alone", "1m15s alone")
	})
}

// TestTasksOfOtherQueuesDoNotYield: what ends them waits in the main queue. Two failing ones would run in turn without a pause.
func TestTasksOfOtherQueuesDoNotYield(t *testing.T) {
	set := &queue.Set{Delay: func(int) time.Duration { return 10 * time.Second }}
	bubble(t, set, func(d *runLog) {
		fails := func(name string, times int) *queue.Task {
			return &queue.Task{Name: name, Yields: func() bool { return true }, Do: func(context.Context, *queue.Queue, *queue.Task) error {
				d.note("%s", name)
				if times--; times >= 0 {
					return errors.New("no")
				}
				return nil
			}}
		}
		set.Add("side", fails("a", 2), fails("b", 1))
		time.Sleep(time.Minute)
		d.is(t, "0s a", "10s a", "20s a", "20s b", "30s b")
	})
}

func TestTaskHasItsOwnPause(t *testing.T) {
	set := &queue.Set{}
	bubble(t, set, func(d *runLog) {
		set.Add("main", &queue.Task{Name: "bad", Pause: 5 * time.Second, Do: func(context.Context, *queue.Queue, *queue.Task) error {
			d.note("try")
			return errors.New("no luck")
		}})
		time.Sleep(18 * time.Second)
		d.is(t, "0s try", "5s try", "10s try", "15s try")
	})
}

func TestTasksAddedNextRunFirst(t *testing.T) {
	set := &queue.Set{}
	bubble(t, set, func(d *runLog) {
		set.Add("main", &queue.Task{Name: "first", Do: func(_ context.Context, q *queue.Queue, _ *queue.Task) error {
			q.Next(takes(d, "second", 0), takes(d, "third", 0))
			return nil
		}}, takes(d, "fourth", 0))
		time.Sleep(time.Second)
		d.is(t, "0s second", "0s third", "0s fourth")
	})
}

func TestBackoffMatchesSamples(t *testing.T) {
	var file struct {
		Cases []struct {
			FailureCount             int
			ObservedMin, ObservedMax string
		}
	}
	data, err := os.ReadFile(upstreamcases.Path(t, "operator/shell-operator/queue_backoff.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Cases {
		least, err := time.ParseDuration(c.ObservedMin)
		if err != nil {
			t.Fatal(err)
		}
		most, err := time.ParseDuration(c.ObservedMax)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			// The samples were rounded down to a tenth of a second.
			if got := queue.Delay(c.FailureCount).Truncate(100 * time.Millisecond); got < least || got > most {
				t.Errorf("after %d failures the pause is %s, not %s to %s", c.FailureCount, got, least, most)
			}
		}
	}
	t.Logf("%d of %d rows of queue_backoff.json checked", len(file.Cases), len(file.Cases))
	for failed, least := range []time.Duration{5, 6, 7, 9, 13, 21, 32, 32} {
		if got := queue.Delay(failed); got < least*time.Second || got > (least+1)*time.Second {
			t.Errorf("after %d failures the pause is %s", failed, got)
		}
	}
}

// entry is a run in the samples' words. Other types are those of other tasks.
type entry struct{ Hook, Binding, Type, Group string }

func (e entry) task() *queue.Task {
	if !slices.Contains([]string{"", "Schedule", "Synchronization", "Event"}, e.Type) {
		return &queue.Task{Name: e.Type}
	}
	c := binding.Context{Type: binding.OnKubernetes, Binding: e.Binding, Group: e.Group, Moment: binding.Moment(e.Type), Event: binding.Added}
	if e.Type == "" || e.Type == "Schedule" {
		c.Type, c.Moment = binding.OnSchedule, ""
	}
	return &queue.Task{Name: "run", Hook: e.Hook, Version: "v1", Contexts: []binding.Context{c}}
}

// combine fills a queue, and lets its head combine.
func combine(t *testing.T, entries []*queue.Task) (contexts []binding.Context, taken, left int) {
	t.Helper()
	set, done := &queue.Set{}, make(chan struct{})
	entries[0].Do = func(ctx context.Context, q *queue.Queue, head *queue.Task) error {
		taken = q.Combine(head)
		contexts, left = head.Contexts, set.Lengths()["main"]
		close(done)
		<-ctx.Done()
		return nil
	}
	set.Add("main", entries...)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { set.Run(ctx); close(over) }()
	<-done
	cancel()
	<-over
	return contexts, taken, left
}

// combineRow is a sample of a queue. A task that is not a run may say so with the type of its context.
type combineRow struct {
	Name  string
	Queue []struct {
		entry
		Task, TaskType string
	}
	Expect map[string]any
}

func TestCombinedContextsMatchSamples(t *testing.T) {
	var file struct{ Cases []combineRow }
	data, err := os.ReadFile(upstreamcases.Path(t, "operator/shell-operator/combine.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for i := range file.Cases {
		file.Cases[i].check(t)
	}
	t.Logf("%d of %d rows of combine.yaml checked", len(file.Cases), len(file.Cases))
}

// check compares counts and the types that the hook reads. A missing count of contexts means that nothing is combined.
func (c *combineRow) check(t *testing.T) {
	t.Helper()
	var tasks []*queue.Task
	for _, e := range c.Queue {
		if kind := cmp.Or(e.Task, e.TaskType); kind != "" && kind != "HookRun" {
			e.Type = kind
		}
		tasks = append(tasks, e.task())
	}
	contexts, taken, left := combine(t, tasks)
	for key, want := range c.Expect {
		got := any(nil)
		switch lower := strings.ToLower(key); {
		case strings.HasPrefix(lower, "note"):
			continue
		case key == "contextsPassedToHook" && want == nil:
			got, want = taken, 0
		case key == "contextsPassedToHook":
			got = len(contexts)
		case key == "tasksRemovedFromQueue":
			got = taken
		case key == "queueLengthAfter":
			got = left
		case strings.Contains(lower, "type"):
			got = types(t, contexts)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %s is %v, not %v", c.Name, key, got, want)
		}
	}
}

// types are those that the hook reads.
func types(t *testing.T, contexts []binding.Context) (all []string) {
	t.Helper()
	data, err := binding.Encode("v1", contexts)
	if err != nil {
		t.Fatal(err)
	}
	var entries []struct{ Type string }
	if err := json.Unmarshal(data, &entries); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Type)
	}
	return all
}

func TestCombiningRowsAreReadInAllForms(t *testing.T) {
	var rows []combineRow
	if err := yaml.Unmarshal([]byte(`
- name: types
  queue:
  - {hook: h, binding: kubernetes, type: Synchronization, group: pods}
  - {hook: h, binding: schedule, group: pods}
  - {hook: h, binding: kubernetes, type: Event}
  - {hook: h, binding: schedule}
  - {hook: h, task: EnableScheduleBindings}
  - {hook: h, binding: schedule}
  expect: {contextsPassedToHook: 3, contextTypes: [Group, Event, Schedule], tasksRemovedFromQueue: 3, queueLengthAfter: 3}
- name: nothing is combined
  queue: [{hook: h, binding: kubernetes, type: Event}, {hook: i, binding: schedule, task: HookRun}]
  expect: {contextsPassedToHook: null, tasksRemovedFromQueue: 0}
`), &rows); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		rows[i].check(t)
	}
}

func TestUncombinableRuns(t *testing.T) {
	event, schedule := entry{"h", "pods", "Event", ""}, entry{"h", "every", "", ""}
	synced := func(group string) entry { return entry{"h", "pods", "Synchronization", group} }
	v0, allowed := event.task(), event.task()
	v0.Version, allowed.AllowFailure = "v0", true
	inModule := func() *queue.Task { task := synced("").task(); task.JoinSynchronizations = true; return task }
	for _, c := range []struct {
		name            string
		tasks           []*queue.Task
		contexts, taken int
	}{
		{"an event and a schedule are", []*queue.Task{event.task(), schedule.task()}, 2, 1},
		{"runs of version v0", []*queue.Task{v0, event.task()}, 1, 0},
		{"runs that may fail with others", []*queue.Task{event.task(), allowed}, 1, 0},
		{"another hook", []*queue.Task{event.task(), entry{"other", "pods", "Event", ""}.task(), event.task()}, 1, 0},
		{"another task", []*queue.Task{event.task(), {Name: "enable"}, event.task()}, 1, 0},
		{"synchronizations without a group", []*queue.Task{synced("").task(), synced("").task()}, 1, 0},
		{"synchronizations of modules are", []*queue.Task{inModule(), inModule(), event.task()}, 2, 1},
		{"synchronizations of two groups", []*queue.Task{synced("a").task(), synced("b").task()}, 1, 0},
		{"synchronizations of one group are", []*queue.Task{synced("a").task(), synced("a").task()}, 1, 1},
		{"a synchronization of a group and an event are", []*queue.Task{synced("a").task(), entry{"h", "pods", "Event", "b"}.task()}, 2, 1},
		{"a synchronization without a group and an event", []*queue.Task{synced("").task(), event.task()}, 1, 0},
		{"an event and a synchronization", []*queue.Task{event.task(), synced("a").task()}, 1, 0},
	} {
		if contexts, taken, _ := combine(t, c.tasks); len(contexts) != c.contexts || taken != c.taken {
			t.Errorf("%s: %d contexts, %d taken", c.name, len(contexts), taken)
		}
	}
}

// TestRunsAfterGroupSynchronizationsAreCombined: the contexts of seven runs become five, up to a task that is not a run.
func TestRunsAfterGroupSynchronizationsAreCombined(t *testing.T) {
	var tasks []*queue.Task
	for _, e := range []entry{
		{"h", "one", "Synchronization", "pods"}, {"h", "two", "Synchronization", "pods"}, {"h", "every", "Schedule", "pods"},
		{"h", "three", "Event", ""}, {"h", "every", "Schedule", "pods"}, {"h", "other", "Schedule", ""}, {"h", "one", "Event", "pods"},
		{"h", "", "EnableScheduleBindings", ""}, {"h", "three", "Event", ""},
	} {
		tasks = append(tasks, e.task())
	}
	contexts, taken, left := combine(t, tasks)
	var got []string
	for _, c := range contexts {
		got = append(got, c.Binding+" "+c.Group)
	}
	if want := []string{"every pods", "three ", "every pods", "other ", "one pods"}; !slices.Equal(got, want) || taken != 6 || left != 3 {
		t.Errorf("%q, %d taken, %d left", got, taken, left)
	}
}
