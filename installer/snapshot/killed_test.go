package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/sealift/sealift/installer/cluster"
)

// The variables that make the test binary a program that saves a snapshot, to be killed in the middle.
const (
	rootfsVariable   = "SNAPSHOT_TEST_ROOTFS"
	endpointVariable = "SNAPSHOT_TEST_ENDPOINT"
	keyVariable      = "SNAPSHOT_TEST_KEY"
	outVariable      = "SNAPSHOT_TEST_OUT"
)

func TestMain(m *testing.M) {
	if rootfs := os.Getenv(rootfsVariable); rootfs != "" {
		s := Source{Rootfs: rootfs, Node: "host-1", Etcd: cluster.EtcdAddress{Endpoint: os.Getenv(endpointVariable), PKI: rootfs + cluster.PKI + "/etcd"}}
		to, err := Recipients(os.Getenv(keyVariable))
		if err == nil {
			_, err = s.Save(context.Background(), os.Getenv(outVariable), to...)
		}
		if err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// stopAfter passes connections on to an address until that has sent some bytes, and then tells stopped and holds the rest.
func stopAfter(t *testing.T, address string, bytes int64) (endpoint string, stopped <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	told := make(chan struct{})
	go func() {
		client, err := l.Accept()
		if err != nil {
			return
		}
		defer client.Close()
		server, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		defer server.Close()
		go func() { _, _ = io.CopyN(client, server, bytes); close(told) }()
		_, _ = io.Copy(server, client) // until the client is killed
	}()
	return "https://" + l.Addr().String(), told
}

// TestSaveThatIsKilledLeavesNoSnapshot kills a program at ten moments of the transfer from etcd.
func TestSaveThatIsKilledLeavesNoSnapshot(t *testing.T) {
	s := controlPlane(t)
	private, public, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := age.ParseIdentities(bytes.NewReader(private))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "snapshot")
	for n := range int64(10) {
		endpoint, stopped := stopAfter(t, strings.TrimPrefix(s.Etcd.Endpoint, "https://"), 8<<10+n*200<<10)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), rootfsVariable+"="+s.Rootfs, endpointVariable+"="+endpoint, keyVariable+"="+public, outVariable+"="+out)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-stopped
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("killed at moment %d, it left a snapshot: %v", n, err)
		}
	}
	if _, err := s.Save(t.Context(), out, to(t, public)...); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(bytes.NewReader(read(t, out)), keys...); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(out), "*")); err != nil || len(left) != 1 {
		t.Errorf("the next save leaves %v, %v", left, err)
	}
}

func to(t *testing.T, public string) []age.Recipient {
	t.Helper()
	all, err := Recipients(public)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
