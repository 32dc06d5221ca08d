package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/sealift/sealift/internal/head"
	"github.com/sealift/sealift/internal/plaintext"
)

const (
	// maxJobs is how many actions run at a time, and keptJobs how many remain to be looked at.
	maxJobs, keptJobs = 2, 24
	// maxOutput is the maximum length of an action's progress, in bytes.
	maxOutput = 256 << 10
	// cut ends a progress that is longer.
	cut = "\n[the rest is left out]\n"
)

// ErrBusy means that an action has to wait for another one.
var ErrBusy = errors.New("wait until it ends")

// Job is an action that was started. Its fields do not change.
type Job struct {
	ID      string
	Action  Action
	Values  map[string]string // of its fields
	Command string            // as a person types it
	Who     string
	Began   time.Time

	mu       sync.Mutex
	progress []byte
	isCut    bool
	document []byte
	ended    time.Time
	failure  string
	changed  chan struct{} // closed and replaced when something of the above changes
}

// State is a job at one moment.
type State struct {
	Progress string    // what the program printed for people until now
	Document []byte    // what it printed for programs, once it has ended
	Ended    time.Time // zero while it runs
	Failure  string    // why it failed, "" if it did not
}

// State returns the state of the job, and a channel that is closed with the next change.
func (j *Job) State() (State, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return State{Progress: string(j.progress), Document: j.document, Ended: j.ended, Failure: j.failure}, j.changed
}

func (j *Job) hasEnded() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.ended.IsZero()
}

// Write adds to the progress.
func (j *Job) Write(p []byte) (int, error) {
	j.change(func() {
		switch room := maxOutput - len(j.progress); {
		case j.isCut:
		case len(p) > room:
			j.progress, j.isCut = append(append(j.progress, p[:room]...), cut...), true
		default:
			j.progress = append(j.progress, p...)
		}
	})
	return len(p), nil
}

func (j *Job) change(do func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	do()
	close(j.changed)
	j.changed = make(chan struct{})
}

// Jobs runs actions. Its methods may be called from several goroutines.
type Jobs struct {
	program string
	now     func() time.Time
	ended   func(*Job, State)

	mu  sync.Mutex
	all []*Job // the newest first
}

// NewJobs returns a runner of actions with a sealift. It calls ended after each action.
func NewJobs(program string, now func() time.Time, ended func(*Job, State)) *Jobs {
	return &Jobs{program: program, now: now, ended: ended}
}

// Start begins an action, and returns at once. begin is called before: its error keeps the action from running. The action ends with ctx.
func (j *Jobs) Start(ctx context.Context, action Action, s Settings, values map[string]string, who string, begin func(*Job) error) (*Job, error) {
	words, err := action.Words(s, values)
	if err != nil {
		return nil, err
	}
	job := &Job{ID: rand.Text()[:12], Action: action, Values: values, Command: Line(words...), Who: who, Began: j.now(), changed: make(chan struct{})}
	if err := j.add(job); err != nil {
		return nil, err
	}
	if err := begin(job); err != nil {
		j.remove(job)
		return nil, err
	}
	go j.run(ctx, job, words)
	return job, nil
}

// add adds a job, unless too many run or one of its action does.
func (j *Jobs) add(job *Job) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	running := slices.DeleteFunc(slices.Clone(j.all), (*Job).hasEnded)
	if at := slices.IndexFunc(running, func(other *Job) bool { return other.Action.Name == job.Action.Name }); at >= 0 {
		return fmt.Errorf("%s has already started this action: %w", running[at].Who, ErrBusy)
	}
	if len(running) >= maxJobs {
		return fmt.Errorf("%d actions are running: %w", len(running), ErrBusy)
	}
	j.all = slices.Insert(j.all, 0, job)
	for at := len(j.all) - 1; at > 0 && len(j.all) > keptJobs; at-- {
		if j.all[at].hasEnded() {
			j.all = slices.Delete(j.all, at, at+1)
		}
	}
	return nil
}

func (j *Jobs) remove(job *Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = slices.DeleteFunc(j.all, func(other *Job) bool { return other == job })
}

func (j *Jobs) run(ctx context.Context, job *Job, words []string) {
	ctx, cancel := context.WithTimeout(ctx, job.Action.time)
	defer cancel()
	out := head.Buffer{Limit: maxDocument}
	progress := plaintext.NewWriter(job)
	err := errors.Join(Run(ctx, j.program, words, &out, progress), progress.Close())
	var failure string
	var exit *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		failure = fmt.Sprintf("stopped: it did not end within %s", job.Action.time)
	case ctx.Err() != nil:
		failure = "stopped with the console"
	case errors.As(err, &exit):
		failure = fmt.Sprintf("failed with exit code %d", exit.ExitCode())
	case err != nil:
		failure = err.Error()
	case out.Dropped:
		failure = ErrLong.Error()
	}
	job.change(func() {
		if job.ended, job.failure = j.now(), failure; !out.Dropped {
			job.document = out.Bytes()
		}
	})
	state, _ := job.State()
	j.ended(job, state)
}

// Idle reports whether no action is running.
func (j *Jobs) Idle() bool {
	return !slices.ContainsFunc(j.List(), func(job *Job) bool { return !job.hasEnded() })
}

// Find returns the job of an ID, or nil.
func (j *Jobs) Find(id string) *Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, job := range j.all {
		if job.ID == id {
			return job
		}
	}
	return nil
}

// List returns the jobs, the newest first.
func (j *Jobs) List() []*Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.all)
}

// Last returns the newest job of an action that has ended with a document, or nil.
func (j *Jobs) Last(action string) *Job {
	for _, job := range j.List() {
		if state, _ := job.State(); job.Action.Name == action && len(state.Document) > 0 {
			return job
		}
	}
	return nil
}

// planTime is how long a plan is good for the action that it shows.
const planTime = time.Hour

// CheckAfter refuses an action whose plan nobody has made. The newest plan of the same values must be good.
func (j *Jobs) CheckAfter(action Action, values map[string]string) error {
	if action.After == "" {
		return nil
	}
	plan, _ := Find(action.After)
	for _, job := range j.List() {
		if job.Action.Name != action.After || !maps.Equal(job.Values, values) {
			continue
		}
		if state, _ := job.State(); state.good(j.now()) {
			return nil
		}
		break
	}
	return fmt.Errorf("look at the plan first: %q must have ended well for it within the last hour", plan.Title)
}

// good reports whether a plan can be carried out: it ended without a failure, not long ago.
func (s State) good(now time.Time) bool {
	return !s.Ended.IsZero() && s.Failure == "" && now.Sub(s.Ended) < planTime
}
