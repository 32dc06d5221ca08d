package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/store"
)

// part is the size of an upload's parts.
const part = 5 << 20

// quick is a retry that does not wait noticeably.
var quick = store.Retry{Attempts: 6, Wait: time.Millisecond}

func random(size int) []byte {
	data := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(size)})
	_, _ = r.Read(data)
	return data
}

func valueOf(t *testing.T, data []byte) store.Value {
	t.Helper()
	v, err := store.Sum(t.Context(), bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func open(t *testing.T, o store.Opener, location string) store.Store {
	t.Helper()
	if o.Retry.Attempts == 0 {
		o.Retry = quick
	}
	s, err := o.Open(location)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// digestOf reads a stored value and returns its sha256.
func digestOf(t *testing.T, s store.Store, key string) string {
	t.Helper()
	o, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(o, 0, o.Size())); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func TestBucketIsAStore(t *testing.T) {
	server := objects.Start(t)
	for name, settings := range map[string][]string{
		"as compatible servers want it": nil,
		"with checksums and parallel":   {"checksum=when_supported", "parallel=3"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, store.Opener{Uploads: t.TempDir()}, server.URL(strings.ReplaceAll(name, " ", "-"), settings...))
			values := map[string]store.Value{
				"empty": valueOf(t, nil), "in/small": valueOf(t, []byte("content")), "in/one-part": valueOf(t, random(part)),
				"in/three parts": valueOf(t, random(2*part+7)),
			}
			for key, v := range values {
				version, err := s.Put(t.Context(), key, v)
				if err != nil {
					t.Fatal(err)
				}
				o, err := s.Get(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if o.Version() != version || o.SHA256() != v.SHA256 || o.Size() != v.Size {
					t.Errorf("%s: has version %q and digest %q, put %q and %q", key, o.Version(), o.SHA256(), version, v.SHA256)
				}
				o.Close()
				if got := digestOf(t, s, key); got != v.SHA256 {
					t.Errorf("%s: read %s, put %s", key, got, v.SHA256)
				}
			}
			infos, err := s.List(t.Context(), "in/")
			if err != nil || len(infos) != 3 || infos[0].Key != "in/one-part" || infos[0].Size != part || infos[0].Version == "" {
				t.Errorf("listed %v, %v", infos, err)
			}
			if _, err := s.Get(t.Context(), "none"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSwapRequiresCurrentVersion(t *testing.T) {
	server := objects.Start(t)
	for name, location := range map[string]string{"folder": t.TempDir(), "bucket": server.URL("")} {
		t.Run(name, func(t *testing.T) {
			s := open(t, store.Opener{}, location)
			first, err := s.Swap(t.Context(), "k", []byte("1"), "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Swap(t.Context(), "k", []byte("2"), ""); !errors.Is(err, store.ErrChanged) {
				t.Errorf("replaced what should not have been there: %v", err)
			}
			second, err := s.Swap(t.Context(), "k", []byte("2"), first)
			if err != nil || second == first {
				t.Errorf("second version is %q, %v", second, err)
			}
			if _, err := s.Swap(t.Context(), "k", []byte("3"), first); !errors.Is(err, store.ErrChanged) {
				t.Errorf("replaced another version than expected: %v", err)
			}
		})
	}
}

func TestConcurrentSwapsAreSerialized(t *testing.T) {
	server := objects.Start(t)
	for name, location := range map[string]string{"folder": t.TempDir(), "bucket": server.URL("")} {
		t.Run(name, func(t *testing.T) {
			s := open(t, store.Opener{}, location)
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() {
					for {
						data, version := read(t, s, "k")
						_, err := s.Swap(t.Context(), "k", append(data, '+'), version)
						if err == nil {
							return
						}
						if !errors.Is(err, store.ErrChanged) {
							t.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			if data, _ := read(t, s, "k"); string(data) != "++++++++" {
				t.Errorf("got %q", data)
			}
		})
	}
}

// read returns a value and its version, both empty when there is none.
func read(t *testing.T, s store.Store, key string) ([]byte, string) {
	for {
		o, err := s.Get(t.Context(), key)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, ""
		}
		if err != nil {
			t.Error(err)
			return nil, ""
		}
		data, err := io.ReadAll(io.NewSectionReader(o, 0, o.Size()))
		o.Close()
		if err == nil {
			return data, o.Version()
		}
		if !errors.Is(err, store.ErrChanged) { // replaced between asking and reading
			t.Error(err)
			return nil, ""
		}
	}
}

func TestTransferOutlastsBadConnection(t *testing.T) {
	server := objects.Start(t)
	v := valueOf(t, random(part+1))
	for name, fault := range map[string]objects.Fault{
		"answers 500":                 {Status: http.StatusInternalServerError},
		"answers 503":                 {Status: http.StatusServiceUnavailable},
		"cuts requests":               {CutRequest: objects.After(1000)},
		"cuts answers":                {CutAnswer: objects.After(100)},
		"cuts before the first byte":  {CutRequest: objects.After(0), CutAnswer: objects.After(0)},
		"is silent longer than is ok": {Delay: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			line := server.Line(t)
			var requests atomic.Int64
			line.Plan(func(*http.Request) objects.Fault {
				if requests.Add(1)%2 == 1 { // each request fails, and what follows it passes
					return fault
				}
				return objects.Fault{}
			})
			o, v := store.Opener{}, v
			if fault.Delay > 0 { // each silence costs time: few requests
				o.Stall, v = 300*time.Millisecond, valueOf(t, random(100))
			}
			s := open(t, o, line.URL(strings.ReplaceAll(name, " ", "-")))
			if _, err := s.Put(t.Context(), "k", v); err != nil {
				t.Fatal(err)
			}
			if got := digestOf(t, s, "k"); got != v.SHA256 {
				t.Errorf("read %s, put %s", got, v.SHA256)
			}
		})
	}
}

func TestPermanentlyBadConnectionIsReported(t *testing.T) {
	server := objects.Start(t)
	line := server.Line(t)
	line.Plan(func(*http.Request) objects.Fault { return objects.Fault{Status: http.StatusServiceUnavailable} })
	s := open(t, store.Opener{Retry: store.Retry{Attempts: 2, Wait: time.Millisecond}}, line.URL("dist"))
	_, err := s.Put(t.Context(), "k", store.Bytes(nil))
	if err == nil || !strings.Contains(err.Error(), "put k") || !strings.Contains(err.Error(), "tried 2 times") || !strings.Contains(err.Error(), "503") {
		t.Errorf("got %v", err)
	}
}

func TestRefusalIsNotRetried(t *testing.T) {
	server := objects.Start(t)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	line := server.Line(t)
	var requests atomic.Int64
	line.Plan(func(*http.Request) objects.Fault { requests.Add(1); return objects.Fault{} })
	s := open(t, store.Opener{}, line.URL(""))
	_, err := s.Put(t.Context(), "k", store.Bytes(nil))
	if err == nil || !strings.Contains(err.Error(), "check the credentials") || requests.Load() != 1 {
		t.Errorf("after %d requests: %v", requests.Load(), err)
	}
}

// isPart reports whether a request brings a part of an upload.
func isPart(r *http.Request) bool {
	return r.Method == http.MethodPut && r.URL.Query().Has("partNumber")
}

func TestInterruptedUploadIsResumed(t *testing.T) {
	server := objects.Start(t)
	data := random(4*part + 9)
	interrupt := func(t *testing.T, o store.Opener, prefix string) (s store.Store, line *objects.Line) {
		line = server.Line(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var parts atomic.Int64
		line.Plan(func(r *http.Request) objects.Fault {
			if isPart(r) && parts.Add(1) == 3 {
				cancel()
				return objects.Fault{CutRequest: objects.After(100)}
			}
			return objects.Fault{}
		})
		s = open(t, o, line.URL(prefix))
		if _, err := s.Put(ctx, "k", valueOf(t, data)); !errors.Is(err, context.Canceled) {
			t.Fatalf("not interrupted: %v", err)
		}
		return s, line
	}
	again := func(t *testing.T, s store.Store, line *objects.Line, v store.Value) (sent, kept int64) {
		line.Plan(nil)
		before := line.Sent()
		v.Meter = func(_, k int64) { kept += k }
		if _, err := s.Put(t.Context(), "k", v); err != nil {
			t.Fatal(err)
		}
		if got := digestOf(t, s, "k"); got != v.SHA256 {
			t.Errorf("read %s, put %s", got, v.SHA256)
		}
		return line.Sent() - before, kept
	}
	t.Run("with the parts that are missing", func(t *testing.T) {
		journals := t.TempDir()
		s, line := interrupt(t, store.Opener{Uploads: journals}, "a")
		sent, kept := again(t, s, line, valueOf(t, data))
		if kept != 2*part || sent < 2*part || sent > 2*part+4096 {
			t.Errorf("sent %d bytes, %d were there", sent, kept)
		}
		if left, _ := os.ReadDir(journals); len(left) != 0 {
			t.Errorf("left %v", left)
		}
	})
	t.Run("also where the server tells no parts", func(t *testing.T) {
		s, line := interrupt(t, store.Opener{Uploads: t.TempDir()}, "b")
		line.Plan(func(r *http.Request) objects.Fault {
			if r.Method == http.MethodGet && r.URL.Query().Has("uploadId") {
				return objects.Fault{Status: http.StatusNotImplemented}
			}
			return objects.Fault{}
		})
		var kept int64
		v := valueOf(t, data)
		v.Meter = func(_, k int64) { kept += k }
		if _, err := s.Put(t.Context(), "k", v); err != nil || kept != 2*part {
			t.Errorf("%d bytes were there, %v", kept, err)
		}
	})
	t.Run("unless the value is another one now", func(t *testing.T) {
		s, line := interrupt(t, store.Opener{Uploads: t.TempDir()}, "c")
		other := bytes.Clone(data)
		other[0]++
		if sent, kept := again(t, s, line, valueOf(t, other)); kept != 0 || sent < int64(len(data)) {
			t.Errorf("sent %d bytes, %d were there", sent, kept)
		}
		wantNoUploads(t, server)
	})
	t.Run("from the start where it was not remembered", func(t *testing.T) {
		s, line := interrupt(t, store.Opener{}, "d")
		wantNoUploads(t, server)
		if _, kept := again(t, s, line, valueOf(t, data)); kept != 0 {
			t.Errorf("%d bytes were there", kept)
		}
	})
	t.Run("from the start where the server gave it up", func(t *testing.T) {
		s, line := interrupt(t, store.Opener{Uploads: t.TempDir()}, "e")
		removeUploads(t, server)
		if _, kept := again(t, s, line, valueOf(t, data)); kept != 0 {
			t.Errorf("%d bytes were there", kept)
		}
	})
	t.Run("and one that nobody remembers is given up in time", func(t *testing.T) {
		interrupt(t, store.Opener{Uploads: t.TempDir()}, "f")
		s := open(t, store.Opener{StaleAfter: time.Nanosecond}, server.URL("f"))
		if _, err := s.Put(t.Context(), "k", valueOf(t, data)); err != nil {
			t.Fatal(err)
		}
		wantNoUploads(t, server)
	})
}

// uploads lists the folders that the server has for unfinished uploads.
func uploads(t *testing.T, server *objects.Server) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(server.Dir, ".sgwtmp", "multipart", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func wantNoUploads(t *testing.T, server *objects.Server) {
	t.Helper()
	if left := uploads(t, server); len(left) != 0 {
		t.Errorf("the server has unfinished uploads: %v", left)
	}
}

func removeUploads(t *testing.T, server *objects.Server) {
	t.Helper()
	found := uploads(t, server)
	if len(found) == 0 {
		t.Fatal("the server has no unfinished uploads")
	}
	for _, dir := range found {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServerRefusesChangedContent(t *testing.T) {
	server := objects.Start(t)
	for _, settings := range []string{"checksum=when_required", "checksum=when_supported"} {
		for name, size := range map[string]int{"small": 10, "in parts": part + 1} {
			t.Run(settings+", "+name, func(t *testing.T) {
				data := random(size)
				v := valueOf(t, data)
				data[size-1]++
				s := open(t, store.Opener{}, server.URL("", settings))
				if _, err := s.Put(t.Context(), "k", v); err == nil {
					t.Error("stored it")
				}
				if infos, err := s.List(t.Context(), ""); err != nil || len(infos) != 0 {
					t.Errorf("listed %v, %v", infos, err)
				}
			})
		}
	}
}

func TestServerWithoutConditionsKeepsLastWrite(t *testing.T) {
	server := objects.Start(t)
	line := server.Line(t)
	line.Plan(func(r *http.Request) objects.Fault {
		if r.Header.Get("If-Match")+r.Header.Get("If-None-Match") != "" {
			return objects.Fault{Status: http.StatusNotImplemented}
		}
		return objects.Fault{}
	})
	s := open(t, store.Opener{}, line.URL(""))
	for _, text := range []string{"1", "2"} {
		if _, err := s.Swap(t.Context(), "k", []byte(text), ""); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(server.Dir, "k")); err != nil || string(data) != "2" {
		t.Errorf("the server has %q, %v", data, err)
	}
}
