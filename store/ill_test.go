package store_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/transfer"
	"github.com/sealift/sealift/store"
)

// TestPlusInVersionIsNotASpace reads from a server that decodes a path as a form, as S3 does. Rancher's charts have such versions.
func TestPlusInVersionIsNotASpace(t *testing.T) {
	dir := t.TempDir()
	for _, key := range []string{"demo-1.0.0+up4.5.tar.gz", "c++-1.0.tar.gz", "plain-1.0.tar.gz"} {
		writeFile(t, dir, key, []byte(key))
	}
	location, _ := serveFolder(t, dir, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.RequestURI, "+") {
				r.URL.Path = strings.ReplaceAll(r.URL.Path, "+", " ")
			}
			next.ServeHTTP(w, r)
		})
	})
	s := open(t, store.Opener{}, location)
	for _, key := range []string{"demo-1.0.0+up4.5.tar.gz", "c++-1.0.tar.gz", "plain-1.0.tar.gz"} {
		if got := digestOf(t, s, key); got != store.Bytes([]byte(key)).SHA256 {
			t.Errorf("%s: read %s", key, got)
		}
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "k", []byte("content"))
	var first atomic.Int64
	location, requests := serveFolder(t, dir, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			first.CompareAndSwap(0, time.Now().UnixNano())
			if time.Since(time.Unix(0, first.Load())) < 900*time.Millisecond {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	s := open(t, store.Opener{Retry: store.Retry{Attempts: 2, Wait: time.Millisecond}}, location)
	o, err := s.Get(t.Context(), "k")
	if err != nil || requests.Load() != 2 {
		t.Fatalf("%d requests, %v", requests.Load(), err)
	}
	_ = o.Close()
}

func TestDrippingStoreTimesOut(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "k", random(1<<20))
	location, _ := serveFolder(t, dir, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(dripping{w, r}, r)
		})
	})
	s := open(t, store.Opener{Retry: store.Retry{Attempts: 2, Wait: time.Millisecond}, Pace: transfer.Pace{Floor: 1000, Window: 50 * time.Millisecond}}, location)
	o, err := s.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if _, err := io.Copy(io.Discard, io.NewSectionReader(o, 0, o.Size())); err == nil || !strings.Contains(err.Error(), "too slowly") || !strings.Contains(err.Error(), "tried 2 times") {
		t.Errorf("got %v", err)
	}
}

// dripping sends one byte at a time.
type dripping struct {
	http.ResponseWriter
	request *http.Request
}

func (d dripping) Write(p []byte) (n int, err error) {
	for n < len(p) && d.request.Context().Err() == nil {
		if _, err := d.ResponseWriter.Write(p[n : n+1]); err != nil {
			return n, err
		}
		_ = http.NewResponseController(d.ResponseWriter).Flush()
		n++
		time.Sleep(2 * time.Millisecond)
	}
	return n, nil
}

// TestAcceptEncodingIsNotSigned asks a server that changes the header before it checks the signature, as Google's does.
func TestAcceptEncodingIsNotSigned(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	var signed, sent atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization := strings.ToLower(r.Header.Get("Authorization"))
		if !strings.Contains(authorization, "signedheaders=") || strings.Contains(authorization, "accept-encoding") {
			signed.Add(1)
		}
		if r.Header.Get("Accept-Encoding") == "identity" {
			sent.Add(1)
		}
		w.Header().Set("ETag", `"one"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("content"))
	}))
	t.Cleanup(server.Close)
	s := open(t, store.Opener{}, "s3://bucket?endpoint="+server.URL)
	if got := digestOf(t, s, "k"); got != store.Bytes([]byte("content")).SHA256 {
		t.Errorf("read %s", got)
	}
	if _, err := s.Put(t.Context(), "k", store.Bytes([]byte("content"))); err != nil {
		t.Error(err)
	}
	if signed.Load() > 0 || sent.Load() == 0 {
		t.Errorf("%d requests signed the header; %d had it", signed.Load(), sent.Load())
	}
	url, err := s.(store.Presigner).Presign(t.Context(), "k", time.Minute)
	if err != nil || strings.Contains(strings.ToLower(url), "accept-encoding") {
		t.Errorf("presigned %s, %v", url, err)
	}
}
