// Package command runs sealift for the console. Reads are commands whose JSON a page shows; actions are commands that a person starts.
// Both are bounded in time, output and number.
//
// It never runs a shell. The words of an action come from one table, and the values in them are checked. It judges no rights: its
// callers ask package access.
package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/diskspace"
	"github.com/sealift/sealift/internal/head"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/internal/tail"
)

const (
	// readTime is the timeout of a read. 'sealift status' asks a cluster that does not answer for 8 seconds.
	readTime = 30 * time.Second
	// freshTime is how long the result of a read is reused. Until staleTime it is still shown, while the command runs again: pages say
	// from when it is.
	freshTime, staleTime = 5 * time.Second, 15 * time.Second
	// maxDocument is the maximum length of a document, in bytes. That of a status has some hundred bytes for each node.
	maxDocument = 8 << 20
	// maxReads is how many reads run at a time.
	maxReads = 3
	// endTime is how long a cancelled program may take to end before it is killed.
	endTime = 10 * time.Second
)

// ErrLong means that a program printed more than its limit.
var ErrLong = errors.New("it printed too much")

// Document is the result of a read.
type Document struct {
	Command string // as a person types it
	JSON    []byte // nil if there is none
	Err     error  // why there is none
	Said    string // what the program printed for people, as its error
	Time    time.Time
	Took    time.Duration
}

// Decode decodes the document into a value.
func (d Document) Decode(into any) error {
	if d.Err != nil {
		return d.Err
	}
	if err := json.Unmarshal(d.JSON, into); err != nil {
		return fmt.Errorf("%s printed JSON of another form: %w", d.Command, err)
	}
	return nil
}

// Reader runs commands that change nothing. Its methods may be called from several goroutines.
type Reader struct {
	program string
	line    func(words ...string) string // as a person types a command
	slots   chan struct{}
	now     func() time.Time

	mu   sync.Mutex
	runs map[string]*run
}

// run is a read in progress, or its result.
type run struct {
	done       chan struct{}
	document   Document
	refreshing bool // by a run that replaces this one
}

// NewReader returns a reader that runs a sealift.
func NewReader(program string, now func() time.Time) *Reader {
	return &Reader{program: program, line: Line, slots: make(chan struct{}, maxReads), now: now, runs: make(map[string]*run)}
}

// Read returns what a command with -o json prints, at most 15 seconds old. Callers that ask for the same command share a run. The run
// outlasts a caller that leaves. Callers name a few fixed commands: each remains in memory.
func (r *Reader) Read(ctx context.Context, words ...string) Document {
	key := strings.Join(words, "\x00")
	r.mu.Lock()
	one, found := r.runs[key]
	if found && one.ended() {
		age := r.now().Sub(one.document.Time)
		found = age < freshTime || age < staleTime && one.document.Err == nil
		if found && age >= freshTime && !one.refreshing {
			one.refreshing = true
			go r.refresh(context.WithoutCancel(ctx), key, one, words)
		}
	}
	if !found {
		one = &run{done: make(chan struct{})}
		r.runs[key] = one
		go r.fill(context.WithoutCancel(ctx), one, words)
	}
	r.mu.Unlock()
	select {
	case <-one.done:
		return one.document
	case <-ctx.Done():
		return Document{Command: r.line(words...), Err: context.Cause(ctx), Time: r.now()}
	}
}

func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// refresh replaces a run, unless it was replaced or forgotten meanwhile.
func (r *Reader) refresh(ctx context.Context, key string, old *run, words []string) {
	fresh := &run{done: make(chan struct{})}
	r.fill(ctx, fresh, words)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs[key] == old {
		r.runs[key] = fresh
	}
}

// Forget drops all results, as after a change.
func (r *Reader) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.runs)
}

// fill runs a command when one of the slots is free.
func (r *Reader) fill(ctx context.Context, one *run, words []string) {
	defer close(one.done)
	r.slots <- struct{}{} // each run ends in time
	defer func() { <-r.slots }()
	began := r.now()
	one.document = r.read(ctx, readTime, words)
	one.document.Time, one.document.Took = r.now(), r.now().Sub(began)
}

// read runs a command. Commands such as status print a document, and exit with 1 if not all is well.
func (r *Reader) read(ctx context.Context, timeout time.Duration, words []string) Document {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d := Document{Command: r.line(words...)}
	out := head.Buffer{Limit: maxDocument}
	var said tail.Buffer
	err := Run(ctx, r.program, append(words, "-o", "json"), &out, plaintext.NewWriter(&said))
	d.Said = said.String()
	text := bytes.TrimSpace(out.Bytes())
	switch {
	case ctx.Err() != nil:
		d.Err = fmt.Errorf("%s did not end within %s", d.Command, timeout)
	case out.Dropped:
		d.Err = fmt.Errorf("%s: %w", d.Command, ErrLong)
	case len(text) > 0 && json.Valid(text):
		d.JSON = text
	case err != nil:
		d.Err = fmt.Errorf("%s failed: %w", d.Command, err)
	default:
		d.Err = fmt.Errorf("%s printed no JSON", d.Command)
	}
	return d
}

// Run runs a program to its end, with its own environment: variables such as SEALIFT_ROOT stand for flags. The program is killed when
// the console ends.
func Run(ctx context.Context, program string, words []string, out, errOut io.Writer) error {
	cmd := exec.CommandContext(ctx, program, words...)
	cmd.Env = []string{"HOME=/root", "PATH=" + hostpath.Folders, "LANG=C.UTF-8", diskspace.MountsVariable + "=" + diskspace.HostMounts}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = out, errOut
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endTime
	return child.Run(cmd)
}

// Line returns the command line with which a person runs sealift with these words.
func Line(words ...string) string { return hostpath.Sudo(quote(words)) }

// Shell returns the command line with which a person runs a program as root. The words may come from a cluster: a shell takes each for
// one word.
func Shell(words ...string) string { return "sudo " + quote(words) }

// Kubectl returns the command line with which a person runs kubectl on a control plane with these words.
func Kubectl(words ...string) string {
	return Shell(append([]string{"kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"}, words...)...)
}

func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		text, err := syntax.Quote(plaintext.Line(word), syntax.LangBash)
		if err != nil { // a NUL byte, which a line does not have
			text = "?"
		}
		quoted[i] = text
	}
	return strings.Join(quoted, " ")
}
