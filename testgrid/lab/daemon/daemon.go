// Package daemon runs a server for a test or for the lab. Its output goes to a file, and it ends with the process that
// started it. If it ends early, the error contains the last lines of its output.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/poll"
)

// stopGrace is the time between SIGTERM and SIGKILL.
const stopGrace = 10 * time.Second

// readyPoll is the time between two checks whether a server is ready.
const readyPoll = 50 * time.Millisecond

// Command describes a server.
type Command struct {
	Path string   // the binary
	Args []string // without the name of the binary
	Dir  string   // its working directory; default that of this process
	Env  []string // added to the environment of this process
	Log  string   // the file that takes its output
}

// Daemon is a running server.
type Daemon struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid once done is closed
}

// Start starts the server. The kernel kills it when this process ends, however it ends.
func Start(c Command) (*Daemon, error) {
	out, err := os.Create(c.Log)
	if err != nil {
		return nil, fmt.Errorf("make the log of %s: %w", filepath.Base(c.Path), err)
	}
	defer out.Close()
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Dir = c.Dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d := &Daemon{name: filepath.Base(c.Path), log: c.Log, cmd: cmd, done: make(chan struct{})}
	wait, err := child.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", d.name, err)
	}
	go func() {
		d.err = wait()
		close(d.done)
	}()
	return d, nil
}

// PID is the server's process id.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Done is closed when the server has ended.
func (d *Daemon) Done() <-chan struct{} { return d.done }

// WaitReady calls ready until it returns nil. It fails when ctx or the server ends, with the last lines of the log.
func (d *Daemon) WaitReady(ctx context.Context, ready func(context.Context) error) error {
	err := poll.Until(ctx, readyPoll, nil, func(ctx context.Context) (bool, error) {
		err := ready(ctx)
		select {
		case <-d.done:
			if err != nil {
				return true, fmt.Errorf("%s ended before it was ready: %w\n%s", d.name, endError(d.err), d.LogTail())
			}
		default:
		}
		return err == nil, poll.NotYet(err)
	})
	if poll.Ended(err) {
		return fmt.Errorf("wait for %s: %w: %w\n%s", d.name, ctx.Err(), err, d.LogTail())
	}
	return err
}

func endError(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// Stop stops the server and waits for its end. It may be called more than once.
func (d *Daemon) Stop() {
	select {
	case <-d.done:
		return
	default:
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // fails only when the server has just ended
	select {
	case <-d.done:
	case <-time.After(stopGrace):
		_ = d.cmd.Process.Kill()
		<-d.done
	}
}

// LogTail returns the last lines of the server's output, at most 4 KiB.
func (d *Daemon) LogTail() string {
	const most = 4096
	f, err := os.Open(d.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	tail, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(tail))
}

// The ports that FreeAddress chooses from. They are below those that the kernel assigns to outgoing connections
// (net.ipv4.ip_local_port_range), so a restarted server finds its port free.
const (
	firstPort = 20000
	portCount = 10000
)

// FreeAddress finds a free loopback address, host:port. Another process may take it before it is used.
func FreeAddress() (string, error) {
	var errs []error
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(portCount)))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("find a free port: %w", errors.Join(errs...))
}

// PeakMemory returns a process's peak resident memory in bytes since its start or since ForgetPeak. It includes the pages
// of the program itself.
func PeakMemory(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(status), "\nVmHWM:")
	if !ok {
		return 0, fmt.Errorf("process %d: the kernel does not report its memory", pid)
	}
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return kib << 10, err
}

// ForgetPeak resets PeakMemory.
func ForgetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}
