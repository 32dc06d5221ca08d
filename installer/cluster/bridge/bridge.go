// Package bridge runs a second API server on a control plane while the first one is replaced, so that a server answers at its address
// all the time. Where other control planes answer, too, kube-proxy still sends requests of pods there for a moment after the first
// server has ended.
//
// The second server does not run in a pod: a kubelet of another minor version gives every static pod another UID and starts all of
// them again. It is a transient unit of systemd, so a restart of the host leaves nothing of it. It runs the program from the image
// of the first server with the flags of the first server's manifest.
//
// Both servers listen on one port (--permit-port-sharing). A server listens before it is ready, so the kernel is told which of the
// two gets new connections: see pair. Connections that exist stay with their server until that one ends.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/regularfile"
)

// The units of systemd with second servers, as a pattern. Each has its own name: one may still finish its requests when the next
// one starts.
const (
	unitName = "sealift-second-apiserver"
	units    = unitName + "*.service"
)

// lifetime ends a second server that a run left, if no other run does.
const lifetime = time.Hour

// stopTime is how long the second server may take to finish its requests: the API server ends them after a minute itself.
const stopTime = 90 * time.Second

// Bridge describes the first server. All fields but Alone are required.
type Bridge struct {
	// Manifest is the file with its static pod.
	Manifest string
	// Folder holds its program temporarily. systemd must be allowed to run programs from there.
	Folder string
	// Client may write EndpointSlices.
	Client kubernetes.Interface
	// Alone means that there is no other control plane. The Service kubernetes keeps its address then.
	Alone bool
	// Output receives progress.
	Output io.Writer
}

// While has a second server answer while do replaces the first one. If a second server is impossible, it reports the reason,
// and do runs alone. When it returns nil, the first server is ready. The second server continues if the first one is not ready.
func (b Bridge) While(ctx context.Context, do func() error) error {
	p, err := b.second(ctx)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		fmt.Fprintf(b.Output, "no second API server answers meanwhile: %v\n", err)
		if err := release(ctx, b.Client); err != nil { // of a run that was killed
			fmt.Fprintln(b.Output, err)
		}
		return do()
	}
	fmt.Fprintln(b.Output, "a second API server answers meanwhile, from "+p.image)
	release := func() {}
	if b.Alone {
		release = p.keepAddresses(ctx, b.Client)
	}
	return p.while(ctx, release, do)
}

// second starts the second server, and waits until it is ready.
func (b Bridge) second(ctx context.Context) (*pair, error) {
	manifest, err := regularfile.ReadFile(b.Manifest)
	if err != nil {
		return nil, err
	}
	s, err := secondOf(manifest)
	if err != nil {
		return nil, errors.Join(err, Stop(ctx, b.Output)) // of a run that was killed
	}
	p := &pair{server: s, output: b.Output, bound: speed.Patience(bound), end: b.end}
	if left, err := b.left(ctx, p); err != nil || left {
		return p, err
	}
	if err := Stop(ctx, b.Output); err != nil { // of a run that was killed
		return nil, err
	}
	p.prepare(ctx)
	unit := fmt.Sprintf("%s-%d.service", unitName, time.Now().UnixMilli())
	if err := b.start(ctx, p, unit); err != nil {
		return nil, errors.Join(err, p.end(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// end stops second servers, without waiting for that. systemd forgets the unit of a server that ended on its own: a pattern may
// match no unit, a name must.
func (b Bridge) end(ctx context.Context) error {
	return command.Run(ctx, b.Output, "systemctl", "stop", "--no-block", units)
}

// left looks for a second server that an earlier run left because the first one did not come back. It keeps running.
func (b Bridge) left(ctx context.Context, p *pair) (bool, error) {
	running, err := processes(ctx, units)
	if err != nil {
		return false, err
	}
	for _, process := range running {
		p.second = process
		p.prepare(ctx)
		if !p.needed(ctx) {
			continue
		}
		fmt.Fprintln(b.Output, "the API server does not answer; the second one of an earlier run goes on")
		return true, nil
	}
	p.second = 0
	return false, nil
}

// start starts the second server, and waits until it is ready.
func (b Bridge) start(ctx context.Context, p *pair, unit string) (err error) {
	const pattern = "sealift-apiserver.*"
	if err := files.Sweep(b.Folder, pattern); err != nil {
		return err
	}
	folder, err := files.TempFolder(b.Folder, pattern)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Remove()) }() // the server has its program open by then
	program := filepath.Join(folder.Path, apiServer)
	if err := copyProgram(ctx, p.server, program); err != nil {
		return err
	}
	if err := command.Run(ctx, b.Output, "systemd-run", p.unit(unit, program)...); err != nil {
		return err
	}
	running, err := processes(ctx, unit)
	if err != nil {
		return err
	}
	if len(running) == 0 {
		return fmt.Errorf("it ended at once; see 'journalctl --unit %s'", unit)
	}
	p.second = running[0]
	return p.wait(ctx, true, p.bound)
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
func (s server) unit(name, program string) []string {
	args := []string{"--quiet", "--collect", "--unit=" + name, "--description=Sealift: a second API server during an upgrade",
		fmt.Sprintf("--property=RuntimeMaxSec=%d", int(speed.Stretch(lifetime).Seconds())), fmt.Sprintf("--property=TimeoutStopSec=%d", int(stopTime.Seconds()))}
	for _, variable := range s.environment {
		args = append(args, "--setenv="+variable)
	}
	args = append(args, "--", program)
	for _, flag := range s.flags {
		args = append(args, strings.ReplaceAll(flag, "$", "$$")) // systemd replaces $NAME
	}
	return args
}

// processes returns the main processes of units. The unit may be a pattern.
func processes(ctx context.Context, unit string) (found []int, err error) {
	said, err := exec.CommandContext(ctx, "systemctl", "show", "--property=MainPID", "--value", unit).Output()
	if err != nil {
		return nil, fmt.Errorf("check for a second API server: systemctl show %s: %w", unit, err)
	}
	for word := range strings.FieldsSeq(string(said)) {
		if process, err := strconv.Atoi(word); err == nil && process != 0 { // 0 of a unit that has ended
			found = append(found, process)
		}
	}
	return found, nil
}

// Stop ends the second server, and waits until it has finished its requests. Without one, Stop does nothing.
func Stop(ctx context.Context, output io.Writer) error {
	return command.Run(ctx, output, "systemctl", "stop", units)
}
