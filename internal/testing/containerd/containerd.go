// Package containerd runs a real containerd, in its own folders and in most cases without its Kubernetes plugin, for tests and benchmarks
// that load images.
package containerd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/scratch"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/daemon"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// startTime is the timeout for its start, which takes a tenth of a second on an idle machine.
const startTime = 2 * time.Minute

// Containerd is a running containerd.
type Containerd struct {
	// Socket is the path of its socket.
	Socket string
	// Ctr is the path of its own client.
	Ctr    string
	binary string
	dir    *scratch.Dir
	daemon *daemon.Daemon
}

// Start starts containerd. Its folder is not on an overlayfs, because overlayfs cannot be stacked, and its path is short
// enough for a socket.
func Start(ctx context.Context, progress func(line string)) (*Containerd, error) {
	return startWith(ctx, progress, "disabled_plugins = ['io.containerd.grpc.v1.cri', 'io.containerd.cri.v1.images', 'io.containerd.cri.v1.runtime', 'io.containerd.nri.v1.nri']", "")
}

// startWith starts containerd with settings for all of it, and for plugins.
func startWith(ctx context.Context, progress func(line string), settings, plugins string) (_ *Containerd, err error) {
	w, err := upstream.NewWorkshop(upstream.Options{Progress: progress})
	if err != nil {
		return nil, err
	}
	binary, err := w.File(ctx, upstream.Program("containerd"))
	if err != nil {
		return nil, err
	}
	ctr, err := w.File(ctx, upstream.Program("ctr"))
	if err != nil {
		return nil, err
	}
	dir, err := scratch.NewIn("/var/tmp")
	if err != nil {
		return nil, err
	}
	c := &Containerd{Socket: dir.File("c.sock"), Ctr: ctr, binary: binary, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	config := fmt.Sprintf(`version = 3
root = %q
state = %q
%s
[grpc]
address = %q
[ttrpc]
address = %q
%s
`, dir.File("root"), dir.File("state"), settings, c.Socket, dir.File("t.sock"), plugins)
	if err := os.WriteFile(dir.File("config.toml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	return c, c.start(ctx)
}

func (c *Containerd) start(ctx context.Context) (err error) {
	if c.daemon, err = daemon.Start(daemon.Command{Path: c.binary, Args: []string{"--config", c.dir.File("config.toml")}, Log: c.dir.File("log")}); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return c.daemon.WaitReady(bounded, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.Socket)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// Restart stops containerd and starts it again with the same folders.
func (c *Containerd) Restart(ctx context.Context) error {
	c.daemon.Stop()
	return c.start(ctx)
}

// Kill kills containerd with SIGKILL and starts it again with the same folders.
func (c *Containerd) Kill(ctx context.Context) error {
	if err := syscall.Kill(c.daemon.PID(), syscall.SIGKILL); err != nil {
		return err
	}
	<-c.daemon.Done()
	return c.start(ctx)
}

// Upgrade stops containerd and starts another version, such as 2.4.2, with the same folders.
func (c *Containerd) Upgrade(ctx context.Context, version string) error {
	w, err := upstream.NewWorkshop(upstream.Options{})
	if err != nil {
		return err
	}
	if c.binary, err = w.File(ctx, upstream.FileOf{Component: "containerd-v" + version, Name: "containerd"}); err != nil {
		return err
	}
	return c.Restart(ctx)
}

// ForTest runs containerd until t ends and returns its socket.
func ForTest(t testing.TB) string {
	t.Helper()
	return StartForTest(t).Socket
}

// StartForTest runs containerd until t ends.
func StartForTest(t testing.TB) *Containerd {
	t.Helper()
	return untilEnd(t, Start)
}

// StartWithKubernetesForTest runs containerd with its Kubernetes plugin until t ends. registries is the folder that says how it reaches
// registries. It can pull images, and run no pods.
func StartWithKubernetesForTest(t testing.TB, registries string) *Containerd {
	t.Helper()
	plugins := fmt.Sprintf("[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = %q\n[plugins.'io.containerd.cri.v1.runtime']\nrestrict_oom_score_adj = true", registries)
	return untilEnd(t, func(ctx context.Context, progress func(line string)) (*Containerd, error) {
		return startWith(ctx, progress, "disabled_plugins = ['io.containerd.nri.v1.nri']", plugins)
	})
}

func untilEnd(t testing.TB, start func(ctx context.Context, progress func(line string)) (*Containerd, error)) *Containerd {
	t.Helper()
	short.Skip(t, "containerd")
	c, err := start(t.Context(), func(line string) { t.Log(line) })
	if err != nil {
		t.Fatalf("start containerd: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop containerd: %v", err)
		}
	})
	return c
}

// PID is the process of containerd.
func (c *Containerd) PID() int { return c.daemon.PID() }

// Stop stops containerd and removes its folder.
func (c *Containerd) Stop() error {
	if c.daemon != nil {
		c.daemon.Stop()
	}
	return c.dir.Remove()
}
