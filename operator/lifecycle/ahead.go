package lifecycle

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/engine"
)

// ahead is the chart of a module, which is read and rendered before its turn.
type ahead struct {
	wanted helm.Wanted // without values
	key    string      // of the values
	begun  atomic.Bool
	done   chan struct{}
	files  map[string][]byte
}

// take returns the files of the chart, or nil if they are not read yet and nobody is reading them.
func (a *ahead) take() map[string][]byte {
	if a == nil || a.begun.CompareAndSwap(false, true) {
		return nil
	}
	<-a.done
	return a.files
}

// lookAhead has charts read and rendered while the cluster is asked what exists, and while the modules before them run, if values have
// changed since the last time. It leaves out modules whose values may change until then: by their first run, or by hooks before their
// chart.
func (o *Operator) lookAhead(ctx context.Context, verdicts map[*unit]verdict) error {
	if o.stopAhead != nil {
		o.stopAhead()
	}
	ctx, o.stopAhead = context.WithCancel(ctx)
	given, err := o.store.given()
	if err != nil || given == o.given {
		return err
	}
	o.given = given
	config := o.store.inForce()
	var all []*ahead
	for _, u := range o.units {
		u.ahead = nil
		if verdicts[u].on && u.chart && u.ready && !config.Modules[u.Key].Unmanaged && len(engine.InOrder(u.hooks, binding.BeforeHelm)) == 0 {
			u.ahead = &ahead{wanted: helm.Wanted{Name: u.Name, Dir: u.Path}, key: u.Key, done: make(chan struct{})}
			all = append(all, u.ahead)
		}
	}
	var next atomic.Int32
	for range min(runtime.GOMAXPROCS(0), len(all)) {
		go func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					return
				}
				o.readAhead(ctx, all[i])
			}
		}()
	}
	return nil
}

// readAhead leaves failures to the module's run, which reports them.
func (o *Operator) readAhead(ctx context.Context, a *ahead) {
	if !a.begun.CompareAndSwap(false, true) {
		return
	}
	defer close(a.done)
	all, err := o.store.forHelm(a.key)
	if err == nil {
		a.wanted.Values = all
		a.files = o.options.Releases.Prepare(ctx, a.wanted)
	}
}
