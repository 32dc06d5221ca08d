// Package hook runs the hooks of add-ons: shell functions of their install.sh files, all in one long-lived bash, since
// add-ons pass globals to one another. Values reach the shell as data over a pipe; none is ever evaluated.
//
// The shell has the functions that kURL's core has for add-ons (docs/reference/kurl.md, kURL §4.2), in prelude/. For work on
// structured text, such as YAML, they call Go: a Verb.
//
// The package knows the shell. Which hooks there are and when they run is the caller's.
package hook

import (
	"bufio"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/tail"
)

//go:embed prelude/*.sh
var prelude embed.FS

// script is the whole prelude, with the loop last.
func script() (string, error) {
	var b strings.Builder
	for _, name := range []string{"start", "log", "wait", "text", "kustomize", "objects", "node", "packages", "addons", "modules", "objectstore", "rook", "loop"} {
		text, err := prelude.ReadFile("prelude/" + name + ".sh")
		if err != nil {
			return "", err
		}
		b.Write(text)
	}
	return b.String(), nil
}

// Verb does something that a hook requests. Its output is printed by the shell function; NUL bytes are not text.
type Verb func(ctx context.Context, args []string, out io.Writer) error

// errNo is the failure of a verb that is a plain no: nothing is printed.
var errNo = errors.New("no")

// Options configure the shell.
type Options struct {
	Dir string   // working directory of the hooks: the install root
	Env []string // the whole environment, as NAME=value
	Log io.Writer
	// Silence is how long a hook may print nothing before it is stopped, until SetSilence says otherwise; zero for any time.
	Silence time.Duration
	// Verbs are requests that hooks can make in addition to the package's own: host-packages NAME…, host-package-files DIR NAME…,
	// and load-images DIR.
	Verbs map[string]Verb
}

// Shell is the running bash. Its methods must not be called from several goroutines at once.
type Shell struct {
	cmd      *exec.Cmd
	requests *os.File // to the shell
	answers  *os.File // responses to the shell
	said     *os.File // from the shell
	printed  *os.File // from the shell and its programs: their output
	replies  *bufio.Reader
	verbs    map[string]Verb
	output   *tail.Buffer
	silence  time.Duration
	heard    chan struct{} // filled when something was printed
	copied   chan struct{} // closed when all output is in
	exited   chan struct{} // closed when the process has ended
}

// What an error shows of a hook's output.
const (
	shownLines = 12
	shownWidth = 400 // bytes of a line
)

// Error is the failure of a hook.
type Error struct {
	Hook   string // the called function
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
func Start(o Options) (_ *Shell, err error) {
	text, err := script()
	if err != nil {
		return nil, err
	}
	var ours, theirs []*os.File
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	requestRead, requestWrite := pipe()
	saidRead, saidWrite := pipe()
	answerRead, answerWrite := pipe()
	outRead, outWrite := pipe()
	turn, turnErr := unix.MemfdCreate("sealift-hooks", unix.MFD_CLOEXEC)
	theirs = []*os.File{requestRead, saidWrite, answerRead, outWrite}
	ours = []*os.File{requestWrite, saidRead, answerWrite, outRead}
	if turnErr == nil {
		theirs = append(theirs, os.NewFile(uintptr(turn), "turn"))
	}
	if err = errors.Join(err, turnErr); err != nil {
		closeAll(append(ours, theirs...))
		return nil, fmt.Errorf("start the shell of the hooks: %w", err)
	}
	s := &Shell{
		cmd:      exec.Command("bash", "--noprofile", "--norc", "-c", text, "sealift"),
		requests: requestWrite, answers: answerWrite, said: saidRead, printed: outRead, replies: bufio.NewReader(saidRead), verbs: verbs(),
		output: &tail.Buffer{}, silence: o.Silence, heard: make(chan struct{}, 1), copied: make(chan struct{}), exited: make(chan struct{}),
	}
	maps.Copy(s.verbs, o.Verbs)
	s.cmd.Dir, s.cmd.Env = o.Dir, slices.Concat(o.Env, []string{patience()})
	s.cmd.Stdout, s.cmd.Stderr = outWrite, outWrite
	s.cmd.ExtraFiles = []*os.File{requestRead, saidWrite, answerRead, theirs[4]}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	wait, err := child.Start(s.cmd)
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return nil, fmt.Errorf("start the shell of the hooks: %w", err)
	}
	go func() {
		_ = wait() // its end was reported over the pipe
		s.hangUp()
		close(s.exited)
	}()
	go func() {
		defer close(s.copied)
		_, _ = io.Copy(io.MultiWriter(s.output, o.Log, hearing(s.heard)), outRead)
		_ = outRead.Close()
	}()
	return s, nil
}

// patience is the variable with the factor by which waits of hooks are longer on this host.
func patience() string { return fmt.Sprintf("SEALIFT_PATIENCE=%d", speed.Stretch(1)) }

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // a pipe that was not created is nil, and reports that
	}
}

// lastWords is the timeout for reading the shell's last output after it ended.
const lastWords = 5 * time.Second

// hangUp ends all reads and writes of the pipes once the shell is gone: a process left by a hook may hold the other ends.
func (s *Shell) hangUp() {
	end := time.Now().Add(lastWords)
	_ = errors.Join(s.said.SetReadDeadline(end), s.answers.SetWriteDeadline(end), s.requests.SetWriteDeadline(end)) // or they are closed
}

// Source reads a script into the shell.
func (s *Shell) Source(ctx context.Context, path string) error {
	_, err := s.request(ctx, "source "+path, "source", path)
	return err
}

// Call calls a shell function with arguments. Its failure, or a call of exit in it, ends the shell and is returned as an
// *Error.
func (s *Shell) Call(ctx context.Context, function string, args ...string) error {
	s.output.Reset()
	words := append([]string{"call", strconv.Itoa(len(args) + 1), function}, args...)
	_, err := s.request(ctx, strings.Join(append([]string{function}, args...), " "), words...)
	return err
}

// message is a message of the shell: its type, and its fields.
type message struct {
	kind   string
	fields []string
}

// maxFields bounds the fields of a message. Hooks have shorter arrays.
const maxFields = 1 << 20

func (s *Shell) read() (m message, err error) {
	if m.kind, err = s.field(); err != nil {
		return m, err
	}
	text, err := s.field()
	if err != nil {
		return m, err
	}
	count, err := strconv.Atoi(text)
	if err != nil || count < 0 || count > maxFields {
		return m, fmt.Errorf("the shell of the hooks said %q of length %q", m.kind, text)
	}
	for range count {
		field, err := s.field()
		if err != nil {
			return m, err
		}
		m.fields = append(m.fields, field)
	}
	return m, nil
}

func (s *Shell) field() (string, error) {
	text, err := s.replies.ReadString(0)
	return strings.TrimSuffix(text, "\x00"), err
}

// request sends one request, answers the shell's requests in the meantime, and collects its messages until it is done.
func (s *Shell) request(ctx context.Context, name string, fields ...string) (said []message, err error) {
	ctx, cancel := s.listen(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, s.kill)
	defer stop()
	if _, err := io.WriteString(s.requests, strings.Join(fields, "\x00")+"\x00"); err != nil {
		return nil, s.ended(ctx, name, "the shell of the hooks is gone", "")
	}
	for {
		m, err := s.read()
		switch {
		case err != nil:
			return nil, s.ended(ctx, name, "", "")
		case m.kind == "done":
			return said, nil
		case m.kind == "exit" && len(m.fields) == 2:
			return nil, s.ended(ctx, name, "exit status "+m.fields[0], m.fields[1])
		case m.kind == "ask" && len(m.fields) > 0:
			if err := s.answer(ctx, m.fields); err != nil {
				return nil, s.ended(ctx, name, err.Error(), "")
			}
		default:
			said = append(said, m)
		}
	}
}

// answer handles a request of the shell. A failure is the hook's to handle.
func (s *Shell) answer(ctx context.Context, fields []string) error {
	var out strings.Builder
	status, complaint := "0", ""
	verb, known := s.verbs[fields[0]]
	if !known {
		status, complaint = "1", "sealift: hooks cannot ask for "+fields[0]
	} else if err := verb(ctx, fields[1:], &out); err != nil {
		status, complaint = "1", err.Error()
		if errors.Is(err, errNo) {
			complaint = ""
		}
	}
	if strings.ContainsRune(out.String(), 0) {
		status, complaint = "1", fields[0]+": the answer has a NUL byte, which no shell can hold"
		out.Reset()
	}
	complaint = strings.ReplaceAll(complaint, "\x00", "")
	_, err := io.WriteString(s.answers, status+"\x00"+out.String()+"\x00"+complaint+"\x00")
	return err
}

// ended returns the error of a hook that ended the shell.
func (s *Shell) ended(ctx context.Context, name, status, place string) error {
	_ = s.Close()
	if status == "" {
		status = s.cmd.ProcessState.String()
	}
	place, _, _ = strings.Cut(place, "\n") // not the rest of a here document
	err := &Error{Hook: name, Status: status, Place: place, Output: s.output.Last(shownLines, shownWidth)}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

func (s *Shell) kill() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) }

// Close ends the shell and its leftovers in its process group.
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
		_ = s.printed.SetReadDeadline(time.Now()) // a process outside the group prints no more
		<-s.copied
	}
	return errors.Join(s.said.Close(), s.answers.Close())
}
