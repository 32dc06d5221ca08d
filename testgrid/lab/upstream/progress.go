package upstream

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// heartbeat is the time between two progress lines: a compile of Kubernetes takes minutes.
const heartbeat = 30 * time.Second

// progress reports how many components are built, which are in progress, and for how long.
type progress struct {
	now func() time.Time

	mu    sync.Mutex // guards the fields below, so that lines come one at a time
	say   func(line string)
	total int // components of the plan; 0 when they are built one by one on request
	made  int
	start time.Time
	tasks []*task // under way, oldest first
}

func newProgress(say func(line string)) *progress {
	if say == nil {
		say = func(string) {}
	}
	return &progress{say: say, now: time.Now}
}

// plan announces the number of components to build and reports at every heartbeat. Call the returned function to stop.
func (p *progress) plan(ctx context.Context, total int) (end func()) {
	p.mu.Lock()
	p.total, p.made, p.start = total, 0, p.now()
	if total > 0 {
		p.say(fmt.Sprintf("%d components are missing and are made now", total))
	}
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var beating sync.WaitGroup
	beating.Go(func() {
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				p.beat()
			}
		}
	})
	return func() {
		cancel()
		beating.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if total > 0 {
			p.say(fmt.Sprintf("%d of %d components made in %s", p.made, total, p.since(p.start)))
		}
		p.total = 0
	}
}

// beat reports the components in progress.
func (p *progress) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var busy []string
	for _, t := range p.tasks {
		busy = append(busy, fmt.Sprintf("%s %s for %s", t.id, t.doing, p.since(t.since)))
	}
	if len(busy) > 0 {
		p.say(p.count() + strings.Join(busy, ", ") + p.soFar())
	}
}

func (p *progress) since(t time.Time) time.Duration { return p.now().Sub(t).Round(time.Second) }

// count returns "[ 3/41] ", or "" outside a plan.
func (p *progress) count() string {
	if p.total == 0 {
		return ""
	}
	width := len(strconv.Itoa(p.total))
	return fmt.Sprintf("[%*d/%d] ", width, p.made, p.total)
}

func (p *progress) soFar() string {
	if p.total == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s so far)", p.since(p.start))
}

// task is a component in progress.
type task struct {
	progress     *progress
	id, doing    string
	begin, since time.Time // since is the begin of the stage
}

func (p *progress) begin(id string) *task {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &task{progress: p, id: id, begin: p.now()}
	p.tasks = append(p.tasks, t)
	return t
}

// stage sets the current stage of the component.
func (t *task) stage(doing string) {
	p := t.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	t.doing, t.since = doing, p.now()
	p.say(p.count() + t.id + ": " + doing)
}

func (t *task) end(err error) {
	p := t.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.tasks {
		if other == t {
			p.tasks = append(p.tasks[:i], p.tasks[i+1:]...)
			break
		}
	}
	if err != nil {
		p.say(fmt.Sprintf("%s%s: failed after %s", p.count(), t.id, p.since(t.begin)))
		return
	}
	p.made++
	p.say(fmt.Sprintf("%s%s: made in %s%s", p.count(), t.id, p.since(t.begin), p.soFar()))
}
