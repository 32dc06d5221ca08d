package preflight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/internal/tail"
)

// ProgramName is the file name of sealift-preflight, the program that contains Troubleshoot.
const ProgramName = "sealift-preflight"

// Program runs sealift-preflight as a process with limited time and memory, so that a collector that hangs or leaks does
// not take the install down.
type Program struct {
	Path   string
	Time   time.Duration // for all specifications together; 0 is 15 minutes
	Memory uint64        // bytes; 0 is 1 GiB
	Log    io.Writer     // log of the collectors; nil discards it
}

// maxReport is the most that is read from the program, in bytes.
const maxReport = 16 << 20

// Check runs HostPreflight specifications from Render.
func (p Program) Check(ctx context.Context, specs [][]byte) ([]Result, error) {
	return p.run(ctx, specs, "check")
}

// Collect runs SupportBundle specifications. It leaves redacted files in dir. kubeconfig is the cluster's, or "" without a
// cluster.
func (p Program) Collect(ctx context.Context, dir, kubeconfig string, specs [][]byte) ([]Result, error) {
	args := []string{"collect", "--dir", dir}
	if kubeconfig != "" {
		args = append(args, "--kubeconfig", kubeconfig)
	}
	return p.run(ctx, specs, args...)
}

func (p Program) run(ctx context.Context, specs [][]byte, args ...string) ([]Result, error) {
	limit := p.Time
	if limit == 0 {
		limit = 15 * time.Minute
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("took more than %s", limit))
	defer cancel()
	said := &tail.Buffer{Limit: 2 << 10}
	out := &limitedBuffer{limit: maxReport}
	cmd := exec.CommandContext(ctx, p.Path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(bytes.Join(specs, []byte("\n---\n"))), out, said
	if p.Log != nil {
		cmd.Stderr = io.MultiWriter(said, p.Log)
	}
	cmd.Env = programEnvironment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // kills the processes of its collectors too
	cmd.WaitDelay = 10 * time.Second
	wait, err := child.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Path, err)
	}
	limitErr := p.limitMemory(cmd.Process.Pid)
	if limitErr != nil {
		cancel()
	}
	err = wait()
	switch {
	case limitErr != nil:
		return nil, limitErr
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", ProgramName, context.Cause(ctx))
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %s", ProgramName, err, said)
	}
	return readReport(out.buffer.Bytes())
}

// limitMemory limits the memory of the process. The process has not read its input yet, so it has not allocated much.
func (p Program) limitMemory(pid int) error {
	limit := p.Memory
	if limit == 0 {
		limit = 1 << 30
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("limit the memory of %s: %w", ProgramName, err)
	}
	return nil
}

// programEnvironment returns the program's environment: the command path and the proxy settings.
func programEnvironment() []string {
	env := []string{"PATH=" + hostpath.Folders, "HOME=/root", "LANG=C.UTF-8"}
	for _, name := range []string{"TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// readReport reads the program's output.
func readReport(text []byte) ([]Result, error) {
	var report Report
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("%s printed no report: %w", ProgramName, err)
	}
	for _, r := range report.Results {
		if r.Status != Pass && r.Status != Warn && r.Status != Fail {
			return nil, fmt.Errorf("%s printed no report: check %q has the status %q", ProgramName, r.Check, r.Status)
		}
	}
	return report.Results, nil
}

// limitedBuffer fails when it would hold more than limit. Only Write is exported: with ReadFrom, io.Copy would bypass the
// limit.
type limitedBuffer struct {
	buffer bytes.Buffer
	limit  int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.buffer.Len()+len(p) > b.limit {
		return 0, fmt.Errorf("larger than %d bytes", b.limit)
	}
	return b.buffer.Write(p)
}
