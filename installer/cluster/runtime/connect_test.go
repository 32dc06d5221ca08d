package runtime_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/cluster/runtime"
)

// TestConnectReportsMissingRights connects without rights to a socket at which somebody listens.
func TestConnectReportsMissingRights(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "c.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(socket, 0); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		goruntime.LockOSThread() // the thread ends with this goroutine
		if err := unix.Setfsuid(65534); err != nil {
			failed <- err
			return
		}
		_, err := runtime.Connect(t.Context(), socket)
		failed <- err
	}()
	select {
	case err = <-failed:
	case <-time.After(20 * time.Second):
		t.Fatal("waits for rights")
	}
	if err == nil || !strings.Contains(err.Error(), "run the command with sudo") {
		t.Errorf("got %v", err)
	}
}

// TestHostWithoutContainerdIsReportedAtOnce has no socket, and then one at which somebody listens.
func TestHostWithoutContainerdIsReportedAtOnce(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "c.sock")
	began := time.Now()
	if _, err := runtime.ConnectRunning(t.Context(), socket); err == nil || !strings.Contains(err.Error(), "no containerd runs on this host: it has no "+socket) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("after %s", took)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := runtime.CheckRunning(socket); err != nil {
		t.Error(err)
	}
}

func TestConnectNamesSocketThatNobodyServes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	socket := filepath.Join(t.TempDir(), "c.sock")
	if _, err := runtime.Connect(ctx, socket); err == nil || !strings.Contains(err.Error(), socket) || !strings.Contains(err.Error(), "systemctl status containerd") {
		t.Errorf("got %v", err)
	}
}
