package runtime

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
)

// Exec runs a program in a container, as the container's own program runs but without a terminal. A container that does not run is
// fs.ErrNotExist. The program is killed when ctx ends.
func (r *Runtime) Exec(ctx context.Context, container string, command []string, output io.Writer) error {
	process, err := r.process(ctx, container, command, output)
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("container %s does not run: %w", container, fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	last := context.WithoutCancel(ctx)
	defer func() { _, _ = process.Delete(last, containerd.WithProcessKill) }()
	ended, err := process.Wait(last)
	if err != nil {
		return err
	}
	if err := process.Start(ctx); err != nil {
		return err
	}
	select {
	case exit := <-ended:
		process.IO().Wait()
		code, _, err := exit.Result()
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d", code)
		}
		return err
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), process.Kill(last, syscall.SIGKILL))
	}
}

// process makes a process in a container, which does not run yet.
func (r *Runtime) process(ctx context.Context, container string, command []string, output io.Writer) (containerd.Process, error) {
	c, err := r.client.LoadContainer(ctx, container)
	if err != nil {
		return nil, err
	}
	spec, err := c.Spec(ctx)
	if err != nil {
		return nil, err
	}
	task, err := c.Task(ctx, nil)
	if err != nil {
		return nil, err
	}
	status, err := task.Status(ctx)
	if err != nil {
		return nil, err
	}
	if status.Status != containerd.Running {
		return nil, errdefs.ErrNotFound
	}
	program := *spec.Process
	program.Args, program.Terminal = command, false
	return task.Exec(ctx, "sealift-"+rand.Text(), &program, cio.NewCreator(cio.WithStreams(nil, output, output)))
}
