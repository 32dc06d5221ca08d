// Package bridge runs a second API server on a cluster's only control plane while the first one is replaced, so that somebody
// answers all the time. Both listen on one port (--permit-port-sharing).
//
// The second server does not run in a pod: a kubelet of another minor version gives every static pod another UID and starts all of
// them again. It is a transient unit of systemd, so a restart of the host leaves nothing of it. It runs the program from the image
// of the first server with the flags of the first server's manifest.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/balancer"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/proc"
	"github.com/sealift/sealift/installer/runtime"
	"github.com/sealift/sealift/internal/atomicfile"
)

// Unit is the unit of systemd with the second server.
const Unit = "sealift-second-apiserver.service"

// How long both servers may take to answer in turn, and how often they are asked. So many answers in a row, each on a connection
// of its own, come from both.
const (
	bound  = 3 * time.Minute
	pause  = 200 * time.Millisecond
	inARow = 12
)

// lifetime ends a second server that a killed run left, if no other run does.
const lifetime = time.Hour

// stopTime is how long the second server may take to finish its requests: the API server ends them after a minute itself.
const stopTime = 90 * time.Second

// Bridge describes the first server. All fields are required.
type Bridge struct {
	// Manifest is the file with its static pod.
	Manifest string
	// Folder is where its program lies for a moment. systemd must be allowed to run programs from there.
	Folder string
	// Output receives what is done.
	Output io.Writer
}

// While has a second server answer while do replaces the first one. If there can be no second server, it says why, and do runs
// alone. When it returns nil, the first server is ready.
func (b Bridge) While(ctx context.Context, do func() error) error {
	if err := Stop(ctx, b.Output); err != nil { // of a run that was killed
		return err
	}
	second, err := b.start(ctx)
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), Stop(context.WithoutCancel(ctx), b.Output))
	}
	if err != nil {
		fmt.Fprintf(b.Output, "no second API server answers meanwhile: %v\n", err)
		if err := Stop(ctx, b.Output); err != nil {
			return err
		}
		return do()
	}
	fmt.Fprintln(b.Output, "a second API server answers meanwhile, from "+second.image)
	err = do()
	if ctx.Err() == nil { // after a failure, the first server comes back
		err = errors.Join(err, wait(ctx, second, 2))
	}
	if stop := Stop(context.WithoutCancel(ctx), b.Output); err != nil || stop != nil {
		return errors.Join(err, stop)
	}
	return wait(ctx, second, 1)
}

// start starts the second server, and waits until both answer.
func (b Bridge) start(ctx context.Context) (second server, err error) {
	manifest, err := os.ReadFile(b.Manifest)
	if err != nil {
		return second, err
	}
	if second, err = secondOf(manifest); err != nil {
		return second, err
	}
	const pattern = "sealift-apiserver.*"
	if err := atomicfile.Sweep(b.Folder, pattern); err != nil {
		return second, err
	}
	folder, err := atomicfile.MkdirTemp(b.Folder, pattern)
	if err != nil {
		return second, err
	}
	defer func() { err = errors.Join(err, folder.Remove()) }() // the server has its program open by then
	program := filepath.Join(folder.Path, apiServer)
	if err := copyProgram(ctx, second, program); err != nil {
		return second, err
	}
	if err := command.Run(ctx, b.Output, "systemd-run", second.unit(program)...); err != nil {
		return second, err
	}
	return second, wait(ctx, second, 2)
}

func copyProgram(ctx context.Context, second server, to string) error {
	containers, err := runtime.Connect(ctx, runtime.Socket)
	if err != nil {
		return err
	}
	defer containers.Close()
	return containers.Program(ctx, second.image, second.program, to)
}

// unit returns the arguments of systemd-run. No shell reads them.
func (s server) unit(program string) []string {
	args := []string{"--quiet", "--collect", "--unit=" + Unit, "--description=Sealift: a second API server during an upgrade",
		fmt.Sprintf("--property=RuntimeMaxSec=%d", int(lifetime.Seconds())), fmt.Sprintf("--property=TimeoutStopSec=%d", int(stopTime.Seconds()))}
	for _, variable := range s.environment {
		args = append(args, "--setenv="+variable)
	}
	args = append(args, "--", program)
	for _, flag := range s.flags {
		args = append(args, strings.ReplaceAll(flag, "$", "$$")) // systemd replaces $NAME
	}
	return args
}

// Stop ends the second server. It finishes its requests first. Without one, Stop does nothing.
func Stop(ctx context.Context, output io.Writer) error {
	loaded, err := exec.CommandContext(ctx, "systemctl", "show", "--property=LoadState", "--value", Unit).Output()
	if err != nil {
		return fmt.Errorf("is there a second API server? systemctl show %s: %w", Unit, err)
	}
	if strings.TrimSpace(string(loaded)) == "not-found" {
		return nil
	}
	return command.Run(ctx, output, "systemctl", "stop", Unit)
}

// wait waits until so many API servers of this host answer.
func wait(ctx context.Context, s server, want int) error {
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	prober := balancer.NewProber()
	for n := 0; n < inARow; {
		listening, err := listeners(s.port)
		if err != nil {
			return err
		}
		n++
		if listening != want || prober.Ready(bounded, s.address) != nil {
			n = 0
		}
		select {
		case <-bounded.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("after %s, %s has %d API servers instead of %d, or not all of them are ready; see /var/log/pods and 'journalctl --unit %s'", bound, s.address, listening, want, Unit)
		case <-time.After(pause):
		}
	}
	return nil
}

// listeners counts the sockets of this host that listen on a TCP port.
func listeners(port int) (n int, err error) {
	const listening = "0A" // the state, as the kernel writes it
	suffix := fmt.Sprintf(":%04X", port)
	for _, table := range []string{"tcp", "tcp6"} {
		found, err := proc.Fields(filepath.Join("/proc/net", table), func(fields []string) string {
			if fields[3] == listening && strings.HasSuffix(fields[1], suffix) {
				return fields[1]
			}
			return ""
		})
		if err != nil {
			return 0, err
		}
		n += len(found)
	}
	return n, nil
}
