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
	costs map[string]time.Duration // of the plan's components, by id; empty when they are built one by one on request
	made  []string
	start time.Time
	tasks []*task // under way, oldest first
}

func newProgress(say func(line string)) *progress {
	if say == nil {
		say = func(string) {}
	}
	return &progress{say: say, now: time.Now}
}

// plan announces the components to build, by id and cost, and reports at every heartbeat. Call the returned function to stop.
func (p *progress) plan(ctx context.Context, costs map[string]time.Duration) (end func()) {
	p.mu.Lock()
	p.costs, p.made, p.start = costs, nil, p.now()
	if len(costs) > 0 {
		p.say(fmt.Sprintf("%d components are missing and are made now%s", len(costs), aboutMinutes(", in %s on two processors", p.remaining())))
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
		if len(costs) > 0 {
			p.say(fmt.Sprintf("%d of %d components made in %s", len(p.made), len(costs), p.since(p.start)))
		}
		p.costs = nil
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
	total := len(p.costs)
	if total == 0 {
		return ""
	}
	width := len(strconv.Itoa(total))
	return fmt.Sprintf("[%*d/%d] ", width, len(p.made), total)
}

func (p *progress) soFar() string {
	if len(p.costs) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s so far%s)", p.since(p.start), aboutMinutes(", %s left", p.remaining()))
}

// remaining estimates the remaining time from the costs of the finished components.
func (p *progress) remaining() time.Duration {
	var made, left time.Duration
	for _, cost := range p.costs {
		left += cost
	}
	for _, id := range p.made {
		made += p.costs[id]
	}
	left -= made
	speed := 1.0
	if known := made / time.Second; known >= 60 {
		speed = p.now().Sub(p.start).Seconds() / float64(known)
	}
	for _, t := range p.tasks {
		if t.doing == compiling {
			left -= min(p.costs[t.id], time.Duration(float64(p.now().Sub(t.since))/speed))
		}
	}
	return time.Duration(float64(left) * speed)
}

// aboutMinutes puts a time in full minutes into a format, or returns "" for one below half a minute.
func aboutMinutes(format string, d time.Duration) string {
	switch minutes := int(d.Round(time.Minute).Minutes()); minutes {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(format, "about a minute")
	default:
		return fmt.Sprintf(format, fmt.Sprintf("about %d minutes", minutes))
	}
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

// compiling is the stage that takes time.
const compiling = "compiling"

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
	p.made = append(p.made, t.id)
	p.say(fmt.Sprintf("%s%s: made in %s%s", p.count(), t.id, p.since(t.begin), p.soFar()))
}
