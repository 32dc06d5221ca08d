package main

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/testgrid/objects"
)

// fillStore puts packages with so many MB into a store, half of which they share, and returns an Installer of them.
func fillStore(t *testing.T, location string, megabytes int) (installer string) {
	t.Helper()
	s, err := store.Open(location)
	if err != nil {
		t.Fatal(err)
	}
	installer = "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec:\n"
	noise := func(seed byte) []byte {
		data := make([]byte, megabytes*1_000_000/3)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
		copy(data, []byte{0x1f, 0x8b}) // what is compressed already is stored as it is
		return data
	}
	for n, name := range []string{"one", "two"} {
		dir := bundle.AddOnDir(name, "1.0")
		p := bundle.Package{Name: name, Version: "1.0", Platforms: []string{"linux/amd64"}, Files: []bundle.File{
			bundle.BytesFile(dir+"/Manifest", 0o644, nil), bundle.BytesFile(dir+"/install.sh", 0o644, nil),
			bundle.BytesFile(dir+"/shared", 0o644, noise(0)), bundle.BytesFile(dir+"/own", 0o644, noise(byte(1+n))),
		}}
		var packed bytes.Buffer
		if _, err := bundle.WritePackage(t.Context(), &packed, p, bundle.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), name+"-1.0.tar.gz", store.Bytes(packed.Bytes())); err != nil {
			t.Fatal(err)
		}
		installer += "  " + name + ": {version: '1.0'}\n"
	}
	return installer
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

// TestATransferEndsWholeWhenTheServerIsTold to end, in the order in which a load balancer and its clients notice.
func TestATransferEndsWholeWhenTheServerIsTold(t *testing.T) {
	o := objects.Start(t)
	installer := fillStore(t, o.URL(""), 30)
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

// sum is a checksum of what is at a URL.
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

// maxMemory is what the server may use, whatever it sends to however many.
const maxMemory = 128 << 20

func TestMemoryDoesNotGrowWithTransfers(t *testing.T) {
	o := objects.Start(t)
	for name, location := range map[string]string{"folder": t.TempDir(), "bucket": o.URL("")} {
		t.Run(name, func(t *testing.T) {
			installer := fillStore(t, location, 300)
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

// peak is the most memory that the server has had, in bytes.
func (s *runningServer) peak(t *testing.T) int64 {
	t.Helper()
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(s.Pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("the kernel does not tell")
	return 0
}
