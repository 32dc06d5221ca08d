package change

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sealift/sealift/kube/lease"
)

// Progress prints what happens while a change is made. Several nodes may run at once.
type Progress struct {
	began time.Time
	mu    sync.Mutex
	out   io.Writer
}

func newProgress(out io.Writer) *Progress { return &Progress{began: time.Now(), out: out} }

// Write prints as it is given.
func (p *Progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(text)
}

// Line prints a line.
func (p *Progress) Line(text string) { fmt.Fprintln(p, text) }

// Waiting prints that another control plane is working.
func (p *Progress) Waiting(holder string) {
	p.Line("waiting for the control plane that is at work: " + lease.HostOf(holder))
}

// Took returns how long the change has taken, rounded to unit.
func (p *Progress) Took(unit time.Duration) time.Duration { return time.Since(p.began).Round(unit) }
