package testgrid

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/testgrid/report"
)

// barPoll is the time between two checks of the report's folder.
const barPoll = 500 * time.Millisecond

// watch shows a run: bars on a terminal, one line per event elsewhere. Call the returned function when the run has ended.
func watch(ctx context.Context, out io.Writer, folder report.Folder) (line func(string), end func()) {
	if terminal, ok := app.Terminal(out); ok {
		return watchBars(ctx, terminal, folder)
	}
	var mu sync.Mutex
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(out, text)
	}, func() {}
}

// watchBars draws a bar for all tests, and a line with the step for each that runs. Other lines pass above them.
func watchBars(ctx context.Context, out io.Writer, folder report.Folder, options ...mpb.ContainerOption) (line func(string), end func()) {
	ctx, stop := context.WithCancel(ctx)
	b := &bars{progress: mpb.New(append(options, mpb.WithOutput(out), mpb.WithWidth(40))...), running: map[string]*runningTest{}}
	var done sync.WaitGroup
	done.Go(func() {
		poll.Repeat(ctx, func(context.Context) time.Duration {
			if results, err := folder.Read(); err == nil { // a file may just be written
				b.update(results)
			}
			return barPoll
		})
	})
	return func(text string) { fmt.Fprintln(b.progress, text) }, func() {
		stop()
		done.Wait()
		b.close()
	}
}

// bars are the progress bars of a run on a terminal.
type bars struct {
	progress *mpb.Progress
	all      *mpb.Bar
	running  map[string]*runningTest
}

// runningTest is the line of one test.
type runningTest struct {
	bar *mpb.Bar

	mu   sync.Mutex
	step string
}

func (r *runningTest) set(step string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.step = step
}

func (r *runningTest) show(decor.Statistics) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.step
}

func (b *bars) update(results []report.Result) {
	ended := int64(0)
	now := map[string]bool{}
	for _, r := range results {
		switch r.Verdict {
		case report.Waiting:
		case report.Running:
			name := fmt.Sprintf("%s on %s", r.Test, r.System)
			if r.Attempt > 1 {
				name += fmt.Sprintf(", attempt %d", r.Attempt)
			}
			now[name] = true
			if b.running[name] == nil {
				test := &runningTest{}
				test.bar = b.progress.New(0, mpb.SpinnerStyle(), mpb.BarRemoveOnComplete(),
					mpb.AppendDecorators(decor.Name(" "+plaintext.Line(name)+": "), decor.Any(test.show)))
				b.running[name] = test
			}
			if len(r.Steps) > 0 {
				b.running[name].set(r.Steps[len(r.Steps)-1].Name)
			}
		default:
			ended++
		}
	}
	for name, test := range b.running {
		if !now[name] {
			test.bar.Abort(true)
			delete(b.running, name)
		}
	}
	if b.all == nil && len(results) > 0 {
		b.all = b.progress.AddBar(int64(len(results)), mpb.BarPriority(-1), mpb.PrependDecorators(decor.CountersNoUnit("%d of %d tests ")))
	}
	if b.all != nil {
		b.all.SetTotal(int64(len(results)), false)
		b.all.SetCurrent(ended)
	}
}

// close removes the bars: the last line of the command reports how the run ended.
func (b *bars) close() {
	for _, test := range b.running {
		test.bar.Abort(true)
	}
	if b.all != nil {
		b.all.Abort(true)
	}
	b.progress.Wait()
}
