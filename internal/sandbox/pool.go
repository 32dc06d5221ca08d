package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sealift/sealift/internal/child"
)

// pool is the children of this process.
type pool struct {
	slots   *semaphore.Weighted
	perUser int64

	mu      sync.Mutex
	tenants map[string]*tenant
	idle    []*process
}

// tenant is the owner of requests.
type tenant struct {
	slots    *semaphore.Weighted
	requests int
}

var shared = sync.OnceValue(func() *pool {
	size := int64(max(2, min(4, runtime.GOMAXPROCS(0))))
	return &pool{slots: semaphore.NewWeighted(size), perUser: size - 1, tenants: make(map[string]*tenant)}
})

// run runs one task. A child whose task did not end as it should is not used again.
func (p *pool) run(ctx context.Context, r Request, task string, data []byte) ([]byte, error) {
	leave, err := p.enter(ctx, r.Tenant)
	if err != nil {
		return nil, err
	}
	defer leave()
	c := p.take()
	if c == nil {
		if c, err = start(); err != nil {
			return nil, fmt.Errorf("%s: start a child process: %w", r.Name, err)
		}
	}
	result, err := c.exchange(ctx, r, frame{Task: task, Limits: r.Limits, Data: data})
	if err != nil || result.Used {
		_ = c.end()
	} else {
		p.keep(c)
	}
	switch {
	case err != nil:
		return nil, err
	case result.Limit != "":
		return nil, &LimitError{r.Name, result.Limit}
	case result.Err != "":
		return nil, errors.New(result.Err)
	}
	return result.Data, nil
}

// enter waits for a free child. Requests of a tenant wait for one another first, so that they never hold all children.
func (p *pool) enter(ctx context.Context, name string) (leave func(), err error) {
	if name == "" {
		return func() { p.slots.Release(1) }, p.slots.Acquire(ctx, 1)
	}
	p.mu.Lock()
	t := p.tenants[name]
	if t == nil {
		t = &tenant{slots: semaphore.NewWeighted(p.perUser)}
		p.tenants[name] = t
	}
	t.requests++
	p.mu.Unlock()
	forget := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if t.requests--; t.requests == 0 {
			delete(p.tenants, name)
		}
	}
	if err := t.slots.Acquire(ctx, 1); err != nil {
		forget()
		return nil, err
	}
	if err := p.slots.Acquire(ctx, 1); err != nil {
		t.slots.Release(1)
		forget()
		return nil, err
	}
	return func() { p.slots.Release(1); t.slots.Release(1); forget() }, nil
}

// take returns the idle child that was used last, or nil.
func (p *pool) take() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		c := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if c.timer.Stop() { // or else it is about to end
			return c
		}
	}
	return nil
}

func (p *pool) keep(c *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
	c.timer = time.AfterFunc(idleTime, func() {
		p.mu.Lock()
		for i := range p.idle {
			if p.idle[i] == c {
				p.idle = append(p.idle[:i], p.idle[i+1:]...)
				break
			}
		}
		p.mu.Unlock()
		_ = c.end()
	})
}

// process is a child.
type process struct {
	*wire
	cmd    *exec.Cmd
	wait   func() error
	stderr head
	timer  *time.Timer
}

// kept are the variables of the environment that children get.
var kept = []string{"TZ", "ZONEINFO", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}

func start() (*process, error) {
	if os.Getenv(variable) != "" {
		return nil, errors.New("this process is a child, and its main does not call sandbox.Main")
	}
	c := &process{cmd: exec.Command("/proc/self/exe")}
	c.cmd.Args[0] = "sealift-sandbox"
	c.cmd.Env = []string{variable + "=1", "GOMAXPROCS=1", "GOTRACEBACK=none"}
	for _, name := range kept {
		if value, found := os.LookupEnv(name); found {
			c.cmd.Env = append(c.cmd.Env, name+"="+value)
		}
	}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from a terminal is for the parent
	c.cmd.Stderr = &c.stderr
	in, err1 := c.cmd.StdinPipe()
	out, err2 := c.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	c.wire = newWire(out, in)
	var err error
	c.wait, err = child.Start(c.cmd)
	return c, err
}

// end kills the child. It had its chance to exit.
func (c *process) end() error {
	_ = c.cmd.Process.Kill()
	return c.wait()
}

// exchange runs one task in the child. After an error the child is unusable.
func (c *process) exchange(ctx context.Context, r Request, request frame) (frame, error) {
	var late atomic.Bool
	timer := time.AfterFunc(r.Limits.Wall, func() { late.Store(true); _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	stop := context.AfterFunc(ctx, func() { _ = c.cmd.Process.Kill() })
	defer stop()
	err := c.send(request)
	for err == nil {
		var f frame
		if f, err = c.receive(r.Limits.Result); err != nil {
			break
		}
		if !f.Ask {
			if !timer.Stop() || !stop() { // it is killed now
				f.Used = true
			}
			return f, nil
		}
		err = c.send(answer(ctx, r, f.Data))
	}
	if ctx.Err() != nil {
		return frame{}, fmt.Errorf("%s: %w", r.Name, context.Cause(ctx))
	}
	if late.Load() {
		return frame{}, &LimitError{r.Name, r.Limits.wallTime()}
	}
	return frame{}, c.died(r, err)
}

func answer(ctx context.Context, r Request, question []byte) frame {
	if r.Answer == nil {
		return frame{Err: "nobody answers questions"}
	}
	data, err := r.Answer(ctx, question)
	if err != nil {
		return frame{Err: err.Error()}
	}
	return frame{Data: data}
}

// died returns why a child ended without a result.
func (c *process) died(r Request, err error) error {
	time.AfterFunc(time.Second, func() { _ = c.cmd.Process.Kill() }) // it may still exist, and violate the protocol
	ended := c.wait()
	text := string(c.stderr)
	var exit *exec.ExitError
	switch {
	case errors.As(ended, &exit) && exit.ExitCode() == exitCPU:
		return &LimitError{r.Name, r.Limits.cpu()}
	case slices.ContainsFunc(outOfMemory, func(sign string) bool { return strings.Contains(text, sign) }):
		return &LimitError{r.Name, r.Limits.memory()}
	case ended == nil:
		return fmt.Errorf("%s: the child process ended early: %w", r.Name, err)
	}
	line, _, _ := strings.Cut(text, "\n")
	return fmt.Errorf("%s: the child process ended early: %w: %s", r.Name, ended, line)
}

// outOfMemory matches the messages of Go's runtime when it gets no memory for the heap, a stack, or a thread.
var outOfMemory = append([]string{"out of memory", "cannot allocate memory", "stack exceeds", "failed to create new OS thread", "pthread_create failed"},
	outOfMemoryOfDetector...)

// head keeps the beginning of a child's output: Go's runtime says first why a process dies.
type head []byte

func (h *head) Write(p []byte) (int, error) {
	const size = 4 << 10
	*h = append(*h, p[:min(len(p), size-len(*h))]...)
	return len(p), nil
}
