package undo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/host/command"
)

// PutBackHost stops the kubelet, writes the files of the host again, and restarts the container runtime if its settings differ. It
// leaves the kubelet stopped, even if it fails.
func (s Set) PutBackHost(ctx context.Context, store Store, output io.Writer) error {
	if err := s.Check(); err != nil {
		return err
	}
	if err := command.Run(ctx, output, "systemctl", "stop", "kubelet"); err != nil {
		return err
	}
	if err := s.exchange(ctx, store, output); err != nil {
		return fmt.Errorf("%w; the kubelet of this host is stopped: repair this, and run the same command again, which starts it", err)
	}
	return nil
}

// PutBackNode does the same on a node whose pods keep running. start runs the restored kubelet. If anything fails, the existing
// kubelet is started, so that the node does not lose its pods.
func (s Set) PutBackNode(ctx context.Context, store Store, output io.Writer, start func() error) (err error) {
	if err := s.Check(); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		if started := command.Run(context.WithoutCancel(ctx), output, "systemctl", "start", "kubelet"); started != nil {
			err = errors.Join(err, fmt.Errorf("the kubelet of this host is stopped: %w; start it, or run the same command again, which does so", started))
		}
	}()
	if err := command.Run(ctx, output, "systemctl", "stop", "kubelet"); err != nil {
		return err
	}
	if err := s.exchange(ctx, store, output); err != nil {
		return err
	}
	return start()
}

func (s Set) exchange(ctx context.Context, store Store, output io.Writer) error {
	changed, err := store.PutBack(s, false)
	for _, name := range changed {
		fmt.Fprintln(output, "put back: "+name)
	}
	if err != nil {
		return err
	}
	if err := command.Run(ctx, output, "systemctl", "daemon-reload"); err != nil {
		return err
	}
	if slices.ContainsFunc(changed, func(name string) bool { return strings.HasPrefix(name, "/etc/containerd/") }) {
		return command.Run(ctx, output, "systemctl", "restart", "containerd")
	}
	return nil
}
