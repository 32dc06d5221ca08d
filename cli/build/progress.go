package build

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/plaintext"
)

// newTransferWatch shows transfers: as bars on a terminal, and elsewhere as one line for each finished transfer. verb is the
// verb of these lines, such as "fetched".
func newTransferWatch(out io.Writer, verb string) transferWatch {
	if terminal, ok := app.Terminal(out); ok {
		return &barWatch{out: terminal}
	}
	return &lineWatch{out: out, verb: verb}
}

// transferWatch is a fetch.Progress. Other output can be printed while it shows bars.
type transferWatch interface {
	fetch.Progress
	settle() // nothing is being shown afterwards, until the next transfer starts
}

// lineWatch writes a plain line for every transfer that ends.
type lineWatch struct {
	mu   sync.Mutex
	out  io.Writer
	verb string
}

func (w *lineWatch) Start(name string, _ int64) fetch.Transfer {
	return &lineTransfer{watch: w, name: name, start: time.Now()}
}

func (w *lineWatch) settle() {}

type lineTransfer struct {
	watch *lineWatch
	name  string
	start time.Time
	bytes int64
}

func (t *lineTransfer) Add(bytes int) { t.bytes += int64(bytes) }

func (t *lineTransfer) Finish(err error) {
	t.watch.mu.Lock()
	defer t.watch.mu.Unlock()
	if err != nil {
		fmt.Fprintf(t.watch.out, "failed %s after %s: %v\n", t.name, app.FormatBytes(t.bytes), err)
		return
	}
	fmt.Fprintf(t.watch.out, "%s %s (%s in %s)\n", t.watch.verb, t.name, app.FormatBytes(t.bytes), time.Since(t.start).Round(10*time.Millisecond))
}

// barWatch draws a bar for every transfer that is under way.
type barWatch struct {
	out io.Writer

	mu   sync.Mutex
	bars *mpb.Progress // nil while nothing is shown
}

func (w *barWatch) Start(name string, size int64) fetch.Transfer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bars == nil {
		w.bars = mpb.New(mpb.WithOutput(w.out), mpb.WithWidth(40))
	}
	bar := w.bars.AddBar(max(size, 0),
		mpb.PrependDecorators(decor.Name(plaintext.Line(name), decor.WCSyncSpaceR)),
		mpb.AppendDecorators(decor.CountersKibiByte("% .1f / % .1f", decor.WCSyncSpace), decor.AverageSpeed(decor.SizeB1024(0), "% .1f", decor.WCSyncSpace)),
		mpb.BarRemoveOnComplete(),
	)
	return &barTransfer{bar: bar}
}

func (w *barWatch) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bars != nil {
		w.bars.Wait()
		w.bars = nil
	}
}

type barTransfer struct{ bar *mpb.Bar }

func (t *barTransfer) Add(bytes int) { t.bar.IncrBy(bytes) }

func (t *barTransfer) Finish(err error) {
	if err != nil {
		t.bar.Abort(true)
		return
	}
	t.bar.SetTotal(-1, true)
}
