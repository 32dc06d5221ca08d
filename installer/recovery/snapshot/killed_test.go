package snapshot

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"filippo.io/age"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/store"
)

// The variables that make the test binary a program that saves a snapshot, to be killed in the middle.
const (
	rootfsVariable   = "SNAPSHOT_TEST_ROOTFS"
	endpointVariable = "SNAPSHOT_TEST_ENDPOINT"
	keyVariable      = "SNAPSHOT_TEST_KEY"
	storeVariable    = "SNAPSHOT_TEST_STORE"
)

func TestMain(m *testing.M) {
	if rootfs := os.Getenv(rootfsVariable); rootfs != "" {
		s := Source{Rootfs: rootfs, Node: "host-1", Etcd: cluster.EtcdAddress{Endpoint: os.Getenv(endpointVariable), PKI: rootfs + kubeadm.PKI + "/etcd"}}
		to, err := Recipients(os.Getenv(keyVariable))
		if err == nil {
			_, _, err = At(os.Getenv(storeVariable), store.Opener{}).Save(context.Background(), s, to...)
		}
		if err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// budget is how many bytes all connections together may still send. It reports when they have, and accepts no more.
type budget struct {
	mu    sync.Mutex
	bytes int64
	ended func()
}

func (b *budget) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes -= int64(len(p)); b.bytes < 0 {
		b.ended()
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// stopAfter forwards connections to an address until that has sent some bytes, and then signals stopped and holds the rest.
func stopAfter(t *testing.T, address string, bytes int64) (endpoint string, stopped <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	told := make(chan struct{})
	left := &budget{bytes: bytes, ended: sync.OnceFunc(func() { close(told) })}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.MultiWriter(left, client), server) }()
			go func() {
				_, _ = io.Copy(server, client) // until the client is killed
				_ = client.Close()
				_ = server.Close()
			}()
		}
	}()
	return "https://" + l.Addr().String(), told
}

// TestKilledSaveLeavesNoSnapshot kills a program at ten moments of the transfer from etcd.
func TestKilledSaveLeavesNoSnapshot(t *testing.T) {
	s := controlPlane(t)
	fixture.Unapproved(t, fips.Snapshots)
	private, public, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := age.ParseIdentities(bytes.NewReader(private))
	if err != nil {
		t.Fatal(err)
	}
	place := At(t.TempDir(), store.Opener{})
	for n := range int64(10) {
		endpoint, stopped := stopAfter(t, strings.TrimPrefix(s.Etcd.Endpoint, "https://"), 8<<10+n*200<<10)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), rootfsVariable+"="+s.Rootfs, endpointVariable+"="+endpoint, keyVariable+"="+public, storeVariable+"="+place.location)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-stopped
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if all, err := place.List(t.Context()); err != nil || len(all) > 0 {
			t.Errorf("killed at moment %d, it left a snapshot: %v, %v", n, all, err)
		}
	}
	others := filepath.Join(place.folder, ".snapshot-host-2.123") // that host may be saving
	if err := os.WriteFile(others, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, kept, err := place.Save(t.Context(), s, to(t, public)...)
	if err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(place.folder, kept.File)
	if _, err := s.reader(t, keys).Verify(bytes.NewReader(read(t, saved))); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(place.folder, "*")); err != nil || !slices.Equal(left, []string{others, saved}) {
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
