package runtime

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
)

// The labels that containerd's CRI plugin sets on containers of pods.
const (
	containerLabel    = "io.kubernetes.container.name"
	podNamespaceLabel = "io.kubernetes.pod.namespace"
)

// graceTime is how long a container may take to end before it is killed.
const graceTime = 10 * time.Second

// Stop ends the named containers of the namespace kube-system, in this order. It returns when all have ended. The kubelet must not
// run: it would start them again.
func (r *Runtime) Stop(ctx context.Context, names []string) error {
	all, err := r.client.Containers(ctx, `labels."`+podNamespaceLabel+`"==kube-system`)
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	ordered := make([][]containerd.Container, len(names))
	for _, c := range all {
		labels, err := c.Labels(ctx)
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("container %s: %w", c.ID(), err)
		}
		if i := slices.Index(names, labels[containerLabel]); i >= 0 {
			ordered[i] = append(ordered[i], c)
		}
	}
	for i, containers := range ordered {
		for _, c := range containers {
			if err := stop(ctx, c); err != nil && !errdefs.IsNotFound(err) {
				return fmt.Errorf("stop a container of %s: %w", names[i], err)
			}
		}
	}
	return nil
}

// stop asks a container to end, and kills it if it does not.
func stop(ctx context.Context, c containerd.Container) error {
	task, err := c.Task(ctx, nil)
	if err != nil {
		return err
	}
	status, err := task.Status(ctx)
	if err != nil || status.Status == containerd.Stopped {
		return err
	}
	ended, err := task.Wait(ctx)
	if err != nil {
		return err
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := task.Kill(ctx, signal); err != nil {
			return err
		}
		select {
		case exit := <-ended:
			return exit.Error()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(graceTime):
		}
	}
	return fmt.Errorf("it does not end after SIGKILL and %v", graceTime)
}
