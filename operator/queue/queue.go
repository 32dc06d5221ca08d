// Package queue runs tasks in named queues: each queue has one worker, which runs one task after the other in the order in
// which they were added. A task that fails stays at the head of its queue and is tried again after a pause, so what follows it
// finds its work done (S-11). Consecutive runs of one hook become one run (S-12).
//
// The package starts no hooks; a task brings what it does.
package queue

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sealift/sealift/operator/binding"
)

// Task is one entry of a queue.
type Task struct {
	// Name describes the task, for people. Hook is the hook that it runs, or "".
	Name, Hook string
	// Contexts are the hook's binding contexts. Queue.Combine joins those of consecutive runs.
	Contexts []binding.Context
	// AllowFailure and Version are the hook's. Only runs that agree in them are joined, and none of version v0.
	AllowFailure bool
	Version      string
	// JoinSynchronizations lets first runs with all objects be joined also where they have no group: so it is in modules.
	JoinSynchronizations bool
	// Activation is the event that led to a run, for metrics; "" is the event of its binding.
	Activation string
	// Pause is the time between a failure and the next try; 0 is a pause that grows.
	Pause time.Duration
	// Yields says, when the task has failed, whether it goes to the end of the main queue. Nil, another queue, or a queue without
	// other tasks lets it stay at the head.
	Yields func() bool
	// Do does the work. It runs in the worker of the queue.
	Do func(ctx context.Context, q *Queue, t *Task) error
	// Done are called after Do has succeeded. Combined runs have the Done of all of them.
	Done []func()

	added    time.Time
	failures int
	err      error
}

// Failures is how often the task has failed so far.
func (t *Task) Failures() int { return t.failures }

// Added is when the task was queued.
func (t *Task) Added() time.Time { return t.added }

// Set is all queues of an operator. Its zero value is ready for use.
type Set struct {
	Log *slog.Logger // nil is silence
	// Delay is the pause after a failure. failed is how often the task had failed before. Default: the function Delay.
	Delay func(failed int) time.Duration
	// Measure gets the duration of an action on a queue: AddLast, AddAfter or RemoveFirst. It may be nil.
	Measure func(queue, action string, took time.Duration)

	mu      sync.Mutex
	ctx     context.Context // of the workers, from Run until it returns
	queues  map[string]*Queue
	workers sync.WaitGroup
}

// Queue is one queue of a Set.
type Queue struct {
	Name string

	set   *Set
	mu    sync.Mutex
	tasks []*Task
	woken chan struct{} // has a message when there may be something to do
	pause chan struct{} // has a message when it is time to end a pause
}

// The pauses after failures.
const (
	firstDelay   = 5 * time.Second
	longestDelay = 32 * time.Second
)

// Delay is 5 s after the first failure, then 5 s and 1, 2, 4, 8 … s plus less than a second of jitter, at most 32 s (S-11).
func Delay(failed int) time.Duration {
	if failed == 0 {
		return firstDelay
	}
	if failed > 5 {
		return longestDelay
	}
	return min(longestDelay, firstDelay+time.Second<<(failed-1)+rand.N(time.Second))
}

// Run works until ctx ends, and returns when no task runs any longer. Tasks may be added before and during it.
func (s *Set) Run(ctx context.Context) {
	s.mu.Lock()
	s.ctx = ctx
	for _, q := range s.queues {
		s.workers.Go(q.work)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.workers.Wait()
}

// Add appends tasks to a queue, and creates the queue if necessary.
func (s *Set) Add(name string, tasks ...*Task) {
	q := s.queue(name)
	defer q.measure("AddLast", time.Now())
	q.mu.Lock()
	for _, t := range tasks {
		t.added = time.Now()
	}
	q.tasks = append(q.tasks, tasks...)
	q.mu.Unlock()
	signal(q.woken)
}

// Wake ends the pause of a queue whose head has failed.
func (s *Set) Wake(name string) { signal(s.queue(name).pause) }

func (s *Set) queue(name string) *Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[name]; q != nil {
		return q
	}
	if s.queues == nil {
		s.queues = map[string]*Queue{}
	}
	q := &Queue{Name: name, set: s, woken: make(chan struct{}, 1), pause: make(chan struct{}, 1)}
	s.queues[name] = q
	if s.ctx != nil && s.ctx.Err() == nil {
		s.workers.Go(q.work)
	}
	return q
}

// signal sends without blocking.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Next puts tasks right behind the head, which runs.
func (q *Queue) Next(tasks ...*Task) {
	defer q.measure("AddAfter", time.Now())
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		t.added = time.Now()
	}
	q.tasks = slices.Insert(q.tasks, min(1, len(q.tasks)), tasks...)
}

func (q *Queue) work() {
	ctx := q.set.ctx
	for {
		t := q.head()
		if t == nil {
			select {
			case <-q.woken:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := t.Do(ctx, q, t)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			for _, done := range t.Done {
				done()
			}
			q.drop()
			continue
		}
		q.failed(ctx, t, err)
	}
}

// failed notes a failure and waits for the next try.
func (q *Queue) failed(ctx context.Context, t *Task, err error) {
	delay := Delay
	if q.set.Delay != nil {
		delay = q.set.Delay
	}
	q.mu.Lock()
	pause := cmp.Or(t.Pause, delay(t.failures))
	t.failures++
	t.err = err
	q.mu.Unlock()
	if q.set.Log != nil {
		q.set.Log.ErrorContext(ctx, "task failed, and is tried again", "queue", q.Name, "task", t.Name, "hook", t.Hook, "failures", t.failures, "pause", pause.String(), "error", err)
	}
	if q.yield(t) {
		return
	}
	select { // a message from before the failure does not count
	case <-q.pause:
	default:
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-q.pause:
	case <-ctx.Done():
	}
	q.yield(t)
}

// yield moves the head behind the other tasks, if it asks for that. What a task makes way for is in the main queue. Elsewhere two
// failing tasks would yield to each other forever, without a pause.
func (q *Queue) yield(t *Task) bool {
	if q.Name != binding.MainQueue || t.Yields == nil || !t.Yields() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) < 2 {
		return false
	}
	q.tasks = append(slices.Delete(q.tasks, 0, 1), t)
	return true
}

func (q *Queue) head() *Task {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) == 0 {
		return nil
	}
	return q.tasks[0]
}

// measure records how long an action took since its start.
func (q *Queue) measure(action string, begin time.Time) {
	if q.set.Measure != nil {
		q.set.Measure(q.Name, action, time.Since(begin))
	}
}

func (q *Queue) drop() {
	defer q.measure("RemoveFirst", time.Now())
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tasks[0] = nil
	q.tasks = q.tasks[1:]
}

// Lengths returns how many tasks each queue has.
func (s *Set) Lengths() map[string]int {
	s.mu.Lock()
	queues := maps.Clone(s.queues)
	s.mu.Unlock()
	all := make(map[string]int, len(queues))
	for name, q := range queues {
		q.mu.Lock()
		all[name] = len(q.tasks)
		q.mu.Unlock()
	}
	return all
}
