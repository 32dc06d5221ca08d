package main

import (
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/testgrid/lab/daemon"
)

// fill puts packages into a store and returns an Installer of them.
func fill(t *testing.T, location string, l objects.Load) (installer string) {
	t.Helper()
	s, err := store.Open(location)
	if err == nil {
		err = objects.Fill(t.Context(), s, l)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l.Installer(l.Packages)
}

// bundleURL stores an Installer at a server.
func (s *runningServer) bundleURL(t *testing.T, installer string) string {
	t.Helper()
	resp, err := http.Post("http://"+s.address+"/installer", "application/yaml", strings.NewReader(installer))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	at := strings.TrimSpace(string(text))
	slash := strings.LastIndex(at, "/")
	if err != nil || resp.StatusCode != http.StatusCreated || slash < 0 {
		t.Fatalf("%s %s %v", resp.Status, text, err)
	}
	return at[:slash] + "/bundle" + at[slash:] + ".tar.gz"
}

// TestStoppedServerFinishesTransfers checks the order in which a load balancer and its clients notice.
func TestStoppedServerFinishesTransfers(t *testing.T) {
	o := objects.Start(t)
	installer := fill(t, o.URL(""), objects.Load{Packages: 1, Own: 30_000_000})
	s := startServer(t, "--store", o.URL(""), "--drain", "2s", "--grace", "1m")
	at := s.bundleURL(t, installer)
	want := sum(t, at)
	slow := http.Client{Transport: &http.Transport{ReadBufferSize: 4 << 10}}
	resp, err := slow.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ready := func() int {
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + s.address + "/readyz")
		if err != nil {
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	var seen []int
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if now := ready(); len(seen) == 0 || seen[len(seen)-1] != now {
			seen = append(seen, now)
		}
		if seen[len(seen)-1] == 0 {
			break
		}
	}
	if got := fmt.Sprint(seen); got != "[503 0]" && got != "[200 503 0]" {
		t.Errorf("asked whether it is ready, the server answered %s; want 503 before it takes no more connections", got)
	}
	if c, err := net.Dial("tcp", s.address); err == nil {
		_ = c.Close()
		t.Error("the server takes connections while it ends")
	}
	select {
	case <-s.ended:
		t.Fatal("the server ended while a transfer ran")
	default:
	}
	got := crc32.NewIEEE()
	if n, err := io.Copy(got, resp.Body); err != nil || n != resp.ContentLength || got.Sum32() != want {
		t.Errorf("%d of %d bytes, %v", n, resp.ContentLength, err)
	}
	select {
	case <-s.ended:
	case <-time.After(30 * time.Second):
		t.Error("the server goes on though nothing is left to do")
	}
}

// sum is a checksum of a URL's content.
func sum(t *testing.T, at string) uint32 {
	t.Helper()
	resp, err := http.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	crc := crc32.NewIEEE()
	if n, err := io.Copy(crc, resp.Body); err != nil || n != resp.ContentLength || n == 0 {
		t.Fatalf("%s: %d of %d bytes, %v", at, n, resp.ContentLength, err)
	}
	return crc.Sum32()
}

// maxMemory bounds the memory of the server, for any number of clients and any answers.
const maxMemory = 128 << 20

func TestMemoryDoesNotGrowWithTransfers(t *testing.T) {
	o := objects.Start(t)
	for name, location := range map[string]string{"folder": t.TempDir(), "bucket": o.URL("")} {
		t.Run(name, func(t *testing.T) {
			installer := fill(t, location, objects.Load{Packages: 2, Own: 100_000_000, Shared: 100_000_000})
			s := startServer(t, "--store", location, "--rate", "1000")
			at := s.bundleURL(t, installer)
			want := sum(t, at)
			before := s.peak(t)
			var group errgroup.Group
			for range 20 {
				group.Go(func() error {
					resp, err := http.Get(at)
					if err != nil {
						return err
					}
					defer resp.Body.Close()
					crc := crc32.NewIEEE()
					n, err := io.Copy(crc, resp.Body)
					if err == nil && (n != resp.ContentLength || crc.Sum32() != want) {
						err = fmt.Errorf("%d bytes of %d, or others", n, resp.ContentLength)
					}
					return err
				})
			}
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
			peak := s.peak(t)
			t.Logf("the server used up to %d MiB, %d MiB before 20 downloads at once", peak>>20, before>>20)
			if peak > maxMemory {
				t.Errorf("more than %d MiB", maxMemory>>20)
			}
		})
	}
}

// peak returns the peak memory of the server, in bytes.
func (s *runningServer) peak(t *testing.T) int64 {
	t.Helper()
	peak, err := daemon.PeakMemory(s.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return peak
}
