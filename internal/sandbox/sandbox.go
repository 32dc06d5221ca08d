// Package sandbox runs functions on the input of tenants in child processes, within limits of time, processor time and memory. What
// exceeds a limit ends its child and nothing else.
//
// A child is this program, started again: main calls Main before anything else, and so does TestMain. Children are reused, and end a
// minute after their last task. They get no environment but time zone, proxies and certificates. One process has one set of children,
// since it bounds their total resources: as many as there are processors, from 2 to 4.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Limits bound one task. Every limit is required.
type Limits struct {
	// CPU is the processor time, in whole seconds; the kernel may take up to one second more.
	CPU time.Duration
	// Wall is the time on the clock. It includes the answers to questions, and not the time in the queue.
	Wall time.Duration
	// Memory is how many bytes of memory the child may add to a new one's: a multiple of 64 MiB. It may get 64 MiB more, since Go takes memory
	// in such steps.
	Memory int64
	// Result bounds the encoded result, in bytes.
	Result int64
}

// Request says for whom a task runs, and how.
type Request struct {
	// Name is the name of the work in errors, such as "the template calico-rome".
	Name string
	// Tenant names the source of the input. One tenant has all children but one at most. Work without a tenant may have all.
	Tenant string
	Limits Limits
	// Answer answers the questions that the task asks. It may be nil if the task asks none.
	Answer func(ctx context.Context, question []byte) ([]byte, error)
}

// ErrLimit is in the chain of every error about a limit.
var ErrLimit = errors.New("a limit is exceeded")

// LimitError reports that a task exceeded one of its limits.
type LimitError struct {
	Name  string // of the request
	Limit string // such as "5s of processor time"
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s exceeds its limit of %s; make it simpler", e.Name, e.Limit)
}

// Unwrap returns ErrLimit.
func (e *LimitError) Unwrap() error { return ErrLimit }

// Names of limits.
func (l Limits) cpu() string      { return l.CPU.String() + " of processor time" }
func (l Limits) wallTime() string { return l.Wall.String() }
func (l Limits) memory() string   { return fmt.Sprintf("%d MiB of memory", l.Memory>>20) }
func (l Limits) result() string   { return fmt.Sprintf("%d KiB of result", l.Result>>10) }

// Task is a function that children run: its input and its result are encoded by encoding/gob.
type Task[In, Out any] struct {
	name string
	run  func(In, Ask) (Out, error)
}

// Ask sends a question to the process that asked for a task, and returns its answer.
type Ask func(question []byte) (answer []byte, err error)

// Define makes a task. Names are unique within a program. An error reaches the caller as text.
func Define[In, Out any](name string, run func(In, Ask) (Out, error)) Task[In, Out] {
	return Task[In, Out]{name, run}
}

// Run runs the task in a child. It waits until one is free.
func (t Task[In, Out]) Run(ctx context.Context, r Request, in In) (out Out, err error) {
	data, err := encode(in)
	if err != nil {
		return out, err
	}
	if data, err = shared().run(ctx, r, t.name, data); err != nil {
		return out, err
	}
	return out, decode(data, &out)
}

// Served is a task that Main serves.
type Served interface {
	serve(input []byte, ask Ask) ([]byte, error)
	title() string
}

func (t Task[In, Out]) title() string { return t.name }

func (t Task[In, Out]) serve(input []byte, ask Ask) ([]byte, error) {
	var in In
	if err := decode(input, &in); err != nil {
		return nil, err
	}
	out, err := t.run(in, ask)
	if err != nil {
		return nil, err
	}
	return encode(out)
}
