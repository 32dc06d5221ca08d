package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/head"
	"github.com/sealift/sealift/internal/regularfile"
)

const (
	// stopTime is how long a hook may continue after SIGTERM.
	stopTime = 10 * time.Second
	// drainTime is how long output is read after the process has ended: a child may hold the pipe forever (S-17).
	drainTime = 500 * time.Millisecond
	// configTime and configSize bound a hook's run for --config and its output.
	configTime = time.Minute
	configSize = 1 << 20
	// answerSize bounds each file that a hook writes.
	answerSize = 64 << 20
	// tailLines and tailWidth bound the quoted output of a hook in an error: a message, and the trace of shell_lib.sh after it.
	tailLines, tailWidth = 20, 500
)

// Runner runs hooks. Its zero value runs them as the user of this process, with its environment, in the default folder for
// temporary files.
type Runner struct {
	Log *slog.Logger // gets the lines that hooks print; nil is silence
	// JSON treats lines that are JSON objects as log records.
	JSON bool
	// TempDir is where the folders of runs are made.
	TempDir string
	// KeepFiles leaves them there.
	KeepFiles bool
	// Timeout ends a run; 0 means never.
	Timeout time.Duration
	// Pass names the variables of this process that hooks see; nil means all. Set adds variables, as NAME=value.
	Pass []string
	Set  []string
	// User runs hooks as another user.
	User *syscall.Credential
}

// Command is one run.
type Command struct {
	Name string // of the hook, for the log
	Path string
	Dir  string // the working folder
	// Why is the reason of the run, for the log. Each line that the hook prints has it.
	Why []slog.Attr
	// In are the contents of the files that the hook reads, by the variable that names the file, such as
	// BINDING_CONTEXT_PATH. Out are the variables of the files that it writes.
	In  map[string][]byte
	Out []string
	// Alias gives the file of a variable a second variable.
	Alias map[string]string
}

// Result is the result of a run.
type Result struct {
	// Out are the contents of the files that the hook wrote, by their variables. A file that is missing is empty.
	Out      map[string][]byte
	Duration time.Duration
	// User and System are processor time, MaxRSS is in bytes.
	User, System time.Duration
	MaxRSS       int64
}

// Run runs a hook. If the hook failed, the result still has what the hook wrote. When ctx ends, the hook and the processes of
// its group get SIGTERM, and SIGKILL after ten seconds.
func (r *Runner) Run(ctx context.Context, c Command) (*Result, error) {
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("it ran longer than %s", r.Timeout))
		defer cancel()
	}
	dir, err := os.MkdirTemp(r.TempDir, "hook-")
	if err != nil {
		return &Result{}, fmt.Errorf("make the files of hook %s: %w", c.Name, err)
	}
	if !r.KeepFiles {
		defer os.RemoveAll(dir)
	}
	environment, err := r.write(dir, c)
	if err != nil {
		return &Result{}, fmt.Errorf("make the files of hook %s: %w", c.Name, err)
	}
	out := &lines{log: r.Log, json: r.JSON, hook: c.Name, why: c.Why}
	cmd := exec.Command(c.Path) // supervise ends it, not a context
	cmd.Dir, cmd.Env = c.Dir, append(r.environment(), environment...)
	result, err := r.process(ctx, cmd, out.of("stdout"), out.of("stderr"))
	if err != nil {
		err = fmt.Errorf("hook %s: %w", c.Name, err)
		if last := out.tail.Last(tailLines, tailWidth); last != "" {
			err = fmt.Errorf("%w; it printed last:\n%s", err, last)
		}
	}
	var readErr error
	if result.Out, readErr = read(dir, c); readErr != nil {
		err = errors.Join(err, fmt.Errorf("hook %s: read its answer: %w", c.Name, readErr))
	}
	return result, err
}

// Config runs a hook with --config and returns its output. dir is the working folder.
func (r *Runner) Config(ctx context.Context, name, path, dir string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, configTime, fmt.Errorf("it ran longer than %s", configTime))
	defer cancel()
	out := &lines{log: r.Log, json: r.JSON, hook: name}
	printed := &head.Buffer{Limit: configSize}
	cmd := exec.Command(path, "--config")
	cmd.Dir, cmd.Env = dir, r.environment()
	_, err := r.process(ctx, cmd, printed, out.of("stderr"))
	if err == nil && printed.Dropped {
		err = fmt.Errorf("it printed more than %d bytes", configSize)
	}
	if err != nil {
		if last := out.tail.Last(tailLines, tailWidth); last != "" {
			err = fmt.Errorf("%w; it printed last:\n%s", err, last)
		}
		return nil, fmt.Errorf("configuration of hook %s: run it with --config: %w", name, err)
	}
	return printed.Bytes(), nil
}

// write makes the files of a run and returns the variables that name them.
func (r *Runner) write(dir string, c Command) (environment []string, err error) {
	files := maps.Clone(c.In)
	if files == nil {
		files = map[string][]byte{}
	}
	for _, variable := range c.Out {
		files[variable] = nil
	}
	for _, variable := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, fileName(variable))
		if err := os.WriteFile(path, files[variable], 0o600); err != nil {
			return nil, err
		}
		if err := r.chown(path); err != nil {
			return nil, err
		}
		environment = append(environment, variable+"="+path)
		if other := c.Alias[variable]; other != "" {
			environment = append(environment, other+"="+path)
		}
	}
	return environment, r.chown(dir)
}

// chown makes the hook's user the owner of a file.
func (r *Runner) chown(path string) error {
	if r.User == nil {
		return nil
	}
	return os.Chown(path, int(r.User.Uid), int(r.User.Gid))
}

// fileName of BINDING_CONTEXT_PATH is binding-context.
func fileName(variable string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(variable, "_PATH"), "_", "-"))
}

// read reads the hook's files. The hook may have put anything there, such as a link to a foreign file.
func read(dir string, c Command) (map[string][]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	out := make(map[string][]byte, len(c.Out))
	for _, variable := range c.Out {
		f, err := regularfile.OpenIn(root, fileName(variable))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		data, err := io.ReadAll(io.LimitReader(f, answerSize+1))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		if len(data) > answerSize {
			return nil, fmt.Errorf("%s: more than %d MiB", variable, answerSize>>20)
		}
		out[variable] = data
	}
	return out, nil
}

func (r *Runner) environment() []string {
	all := os.Environ()
	if r.Pass != nil {
		all = slices.DeleteFunc(all, func(entry string) bool {
			name, _, _ := strings.Cut(entry, "=")
			return !slices.Contains(r.Pass, name)
		})
	}
	return append(all, r.Set...)
}

// process starts cmd in its own process group and waits until it ends.
func (r *Runner) process(ctx context.Context, cmd *exec.Cmd, stdout, stderr io.Writer) (*Result, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: r.User}
	closeOut, err := pipe(&cmd.Stdout, stdout)
	if err != nil {
		return &Result{}, err
	}
	closeErr, err := pipe(&cmd.Stderr, stderr)
	if err != nil {
		closeOut()
		return &Result{}, err
	}
	started := time.Now()
	wait, err := child.Start(cmd)
	if err != nil {
		closeOut()
		closeErr()
		return &Result{}, explain(cmd.Path, err)
	}
	ended := make(chan struct{})
	var failed error // of the process, once it has ended
	go func() {
		failed = wait()
		close(ended)
	}()
	if err = supervise(ctx, cmd.Process.Pid, ended); err == nil {
		err = failed
	}
	result := &Result{Duration: time.Since(started)}
	closeOut()
	closeErr()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		result.User, result.System = cmd.ProcessState.UserTime(), cmd.ProcessState.SystemTime()
		result.MaxRSS = usage.Maxrss << 10
	}
	return result, err
}

// supervise waits for a process, and stops its group when ctx ends. Only then it returns an error.
func supervise(ctx context.Context, pid int, ended <-chan struct{}) error {
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	_ = syscall.Kill(-pid, syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(stopTime):
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		<-ended
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL) // children that ignore SIGTERM
	return fmt.Errorf("stopped: %w", context.Cause(ctx))
}

// pipe copies a stream of a process to w. The returned function waits a moment for the end of the output, and then stops reading: a child
// that the process left behind may hold the stream open. What the process wrote is copied whole, however slow w is.
func pipe(stream *io.Writer, w io.Writer) (finish func(), err error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	*stream = writer
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := io.Copy(w, reader); errors.Is(err, os.ErrDeadlineExceeded) {
			copyHeld(w, reader)
		}
		if l, ok := w.(*line); ok {
			l.end()
		}
	}()
	return func() {
		_ = writer.Close()
		timer := time.NewTimer(drainTime)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			_ = reader.SetReadDeadline(time.Now())
			<-done
		}
		_ = reader.Close()
	}, nil
}

// copyHeld copies what a pipe holds now, without waiting for more.
func copyHeld(w io.Writer, reader *os.File) {
	conn, err := reader.SyscallConn()
	if err != nil {
		return
	}
	var held int
	_ = conn.Control(func(fd uintptr) { held, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	_ = reader.SetReadDeadline(time.Time{})
	_, _ = io.CopyN(w, reader, int64(held))
}
