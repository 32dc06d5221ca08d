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

func TestConnectNamesSocketThatNobodyServes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	socket := filepath.Join(t.TempDir(), "c.sock")
	if _, err := runtime.Connect(ctx, socket); err == nil || !strings.Contains(err.Error(), socket) || !strings.Contains(err.Error(), "systemctl status containerd") {
		t.Errorf("got %v", err)
	}
}
