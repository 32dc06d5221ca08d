package share_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/peer"
	"github.com/sealift/sealift/installer/cluster/share"
)

// endlessList is an endless list of one element, which a client sends for as long as the server reads it.
type endlessList struct {
	element string
	sent    int64
	rest    string
}

func (e *endlessList) Read(p []byte) (int, error) {
	if e.rest == "" {
		e.rest = e.element
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	e.sent += int64(n)
	return n, nil
}

// askMissing asks which digests a node lacks, as a host with a token does.
func askMissing(t *testing.T, root string, body io.Reader) *httptest.ResponseRecorder {
	t.Helper()
	s := &share.Server{Root: root, Log: slog.New(slog.DiscardHandler), Authorize: func(context.Context, string) error { return nil },
		Blobs: func(context.Context, string) (peer.Blob, error) { return nil, fs.ErrNotExist }}
	r := httptest.NewRequest(http.MethodPost, "/v1/missing", body)
	r.TLS = &tls.ConnectionState{}
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func TestEndlessRequestIsRefused(t *testing.T) {
	n := serve(t)
	for name, row := range map[string]struct {
		begin, element string
		status         int
	}{
		"empty strings":  {"[", `"",`, http.StatusBadRequest},
		"digests":        {"[", fmt.Sprintf("%q,", strings.Repeat("0f", 32)), http.StatusRequestEntityTooLarge},
		"one long word":  {`["`, "a", http.StatusBadRequest},
		"spaces":         {"", "    ", http.StatusBadRequest},
		"lists in lists": {"", "[", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			list := &endlessList{element: row.element}
			w := askMissing(t, n.root, io.MultiReader(strings.NewReader(row.begin), list))
			runtime.ReadMemStats(&after)
			if w.Code != row.status {
				t.Errorf("%d %s, want %d", w.Code, w.Body, row.status)
			}
			if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 64<<20 || list.sent > 8<<20 {
				t.Errorf("the server read %d bytes, and its heap grew by %d", list.sent, grown)
			}
		})
	}
}

func TestRequestSpacingIsIgnored(t *testing.T) {
	n := serve(t)
	c := n.client(t, token, n.caHash)
	a, err := c.Archive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e, _ := a.Entry(bundle.InstallerName)
	own, unknown := e.SHA256, strings.Repeat("ab", 32)
	if own == "" {
		own = a.Index.Entries[0].SHA256
	}
	for question, want := range map[string]string{
		"[]": "[]", " [ ]\n": "[]", fmt.Sprintf("[%q]", own): "[]", //nolint:gocritic // as JSON may be written
		fmt.Sprintf("[ %q ,\r\n\t%q]", own, unknown): fmt.Sprintf("[%q]", unknown),
	} {
		if w := askMissing(t, n.root, strings.NewReader(question)); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%q: %d %s, want %s", question, w.Code, w.Body, want)
		}
	}
	for _, question := range []string{"", "[", "{}", `["`, fmt.Sprintf("[%q", own), fmt.Sprintf("[%q,]", own), fmt.Sprintf("[,%q]", own), fmt.Sprintf("[%q%q]", own, own), "null"} {
		if w := askMissing(t, n.root, strings.NewReader(question)); w.Code != http.StatusBadRequest {
			t.Errorf("%q: %d %s", question, w.Code, w.Body)
		}
	}
}

// TestRequestIsAnsweredBeforeEOF sends a mistake, and then nothing more.
func TestRequestIsAnsweredBeforeEOF(t *testing.T) {
	n := serve(t)
	in, out := io.Pipe()
	defer out.Close()
	go func() { _, _ = io.Copy(out, bytes.NewReader([]byte(`["",`))) }()
	ended := make(chan int, 1)
	go func() { ended <- askMissing(t, n.root, in).Code }()
	select {
	case code := <-ended:
		if code != http.StatusBadRequest {
			t.Error(code)
		}
	case <-time.After(10 * time.Second):
		t.Error(errors.New("the server waits for the rest"))
	}
}
