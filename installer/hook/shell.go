// Package hook runs the hooks of add-ons: shell functions of their install.sh files, all in one long-lived bash, since
// add-ons pass globals to one another. Values reach the shell as data over a pipe; none is ever evaluated.
//
// The package knows the shell. Which hooks there are and when they run is the caller's.
package hook

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

//go:embed prelude.sh
var prelude string

// Options says how the shell is started.
type Options struct {
	Dir string   // working directory of the hooks: the install root
	Env []string // the whole environment, as NAME=value
	Log io.Writer
}

// Shell is the running bash. Its methods are not for use from several goroutines at once.
type Shell struct {
	cmd      *exec.Cmd
	requests *os.File
	replies  *bufio.Reader
	output   *tail
	copied   chan struct{} // closed when all output is in
	exited   chan struct{} // closed when the process has ended
	answers  *os.File
}

// Error is the failure of a hook.
type Error struct {
	Hook   string // what was called
	Status string // how it ended
	Place  string // file, line and command that failed, if the shell knows
	Output string // the last lines that the hook printed
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "hook %s: %s", e.Hook, e.Status)
	if e.Place != "" {
		fmt.Fprintf(&b, " at %s", e.Place)
	}
	if e.Output != "" {
		fmt.Fprintf(&b, "\nits last output:\n%s", e.Output)
	}
	return b.String()
}

// Start starts the shell. It ends with Close, or when a hook fails or is cancelled.
func Start(o Options) (*Shell, error) {
	requestRead, requestWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	replyRead, replyWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s := &Shell{
		cmd:      exec.Command("bash", "--noprofile", "--norc", "-c", prelude, "sealift"),
		requests: requestWrite, replies: bufio.NewReader(replyRead), answers: replyRead,
		output: &tail{}, copied: make(chan struct{}), exited: make(chan struct{}),
	}
	s.cmd.Dir, s.cmd.Env = o.Dir, o.Env
	s.cmd.Stdout, s.cmd.Stderr = outWrite, outWrite
	s.cmd.ExtraFiles = []*os.File{requestRead, replyWrite}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err = s.run()
	for _, f := range []*os.File{requestRead, replyWrite, outWrite} {
		_ = f.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("start the shell of the hooks: %w", err)
	}
	go func() {
		defer close(s.copied)
		_, _ = io.Copy(io.MultiWriter(s.output, o.Log), outRead)
		_ = outRead.Close()
	}()
	return s, nil
}

// run starts the process from a thread that lives as long as the process does: the kernel sends the signal that ends the
// shell with its parent when that thread ends.
func (s *Shell) run() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // how it ended was said over the pipe
			close(s.exited)
		}
	}()
	return <-started
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Set gives a shell variable a value, whatever characters are in it but NUL.
func (s *Shell) Set(ctx context.Context, name, value string) error {
	if !variableName.MatchString(name) {
		return fmt.Errorf("%q cannot be a shell variable", name)
	}
	if strings.ContainsRune(value, 0) {
		return fmt.Errorf("the value of %s has a NUL byte, which no shell can hold", name)
	}
	_, err := s.request(ctx, "set", name, value)
	return err
}

// Source reads a script into the shell.
func (s *Shell) Source(ctx context.Context, path string) error {
	_, err := s.request(ctx, "source", path)
	return err
}

// Call calls a shell function. Its failure, or a call of exit in it, ends the shell and is returned as an *Error.
func (s *Shell) Call(ctx context.Context, function string) error {
	s.output.reset()
	_, err := s.request(ctx, "call", function)
	return err
}

// unsettled are the variables of bash's own that change by themselves.
var unsettled = regexp.MustCompile(`^(BASH.*|_|EPOCH.*|RANDOM|SRANDOM|SECONDS|LINENO|PIPESTATUS|FUNCNAME|OPT(ARG|ERR|IND)|COMP_.*|PPID|E?UID|SHELLOPTS|SHLVL|IFS|PWD|OLDPWD|HOST(NAME|TYPE)|MACHTYPE|OSTYPE|DIRSTACK|GROUPS|sealift_.*)$`)

// Variables gives the global variables of the shell that are not arrays.
func (s *Shell) Variables(ctx context.Context) (map[string]string, error) {
	fields, err := s.request(ctx, "variables")
	if err != nil {
		return nil, err
	}
	vars := make(map[string]string, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		if !unsettled.MatchString(fields[i]) {
			vars[fields[i]] = fields[i+1]
		}
	}
	return vars, nil
}

// request sends one request and collects the fields of its answer up to "done".
func (s *Shell) request(ctx context.Context, verb string, fields ...string) ([]string, error) {
	name := strings.Join(append([]string{verb}, fields...), " ")
	if verb == "call" {
		name = fields[0]
	}
	stop := context.AfterFunc(ctx, s.kill)
	defer stop()
	message := verb + "\x00" + strings.Join(append(fields, ""), "\x00")
	if _, err := io.WriteString(s.requests, message); err != nil {
		return nil, s.ended(ctx, name, "the shell of the hooks is gone", "")
	}
	var answer []string
	for {
		field, err := s.replies.ReadString(0)
		if err != nil {
			return nil, s.ended(ctx, name, "killed", "")
		}
		field = strings.TrimSuffix(field, "\x00")
		if field == "done" {
			return answer, nil
		}
		if status, ok := strings.CutPrefix(field, "exit "); ok {
			place, _ := s.replies.ReadString(0)
			return nil, s.ended(ctx, name, "exit status "+status, strings.TrimSuffix(place, "\x00"))
		}
		answer = append(answer, field)
	}
}

// ended makes the error of a hook after which the shell is gone.
func (s *Shell) ended(ctx context.Context, name, status, place string) error {
	_ = s.Close()
	place, _, _ = strings.Cut(place, "\n") // not the rest of a here document
	err := &Error{Hook: name, Status: status, Place: place, Output: s.output.String()}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

func (s *Shell) kill() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) }

// Close ends the shell and what it left running in its process group.
func (s *Shell) Close() error {
	_ = s.requests.Close()
	select {
	case <-s.exited:
	case <-time.After(5 * time.Second):
		s.kill()
		<-s.exited
	}
	select {
	case <-s.copied:
	case <-time.After(time.Second): // a background process of a hook holds the pipe
		s.kill()
	}
	return s.answers.Close()
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// What is kept of a hook's output, and what of that an error shows.
const (
	tailSize  = 16 << 10
	tailLines = 12
	tailWidth = 400 // bytes of a line
)

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - tailSize; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(p), nil
}

func (t *tail) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = t.buf[:0]
}

// String gives the last whole lines, each cut where it is too long to be read.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimRight(string(t.buf), "\n"), "\n")
	if len(t.buf) == tailSize && len(lines) > 1 {
		lines = lines[1:] // its beginning is gone
	}
	lines = lines[max(0, len(lines)-tailLines):]
	for i, line := range lines {
		if len(line) > tailWidth {
			lines[i] = strings.ToValidUTF8(line[:tailWidth], "") + "…"
		}
	}
	return strings.Join(lines, "\n")
}
