package hub

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestBodiesThatDoNotComeKeepNobodyWaiting opens requests whose bodies do not come. Reviews beside them are answered at once.
func TestBodiesThatDoNotComeKeepNobodyWaiting(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n, " ", err)
	})))
	t.Cleanup(server.Close)
	for range 2 * maxReviews {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := fmt.Fprintf(c, "POST /convert HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{", maxReview); err != nil {
			t.Fatal(err)
		}
	}
	for _, length := range []int{1000, 4 << 20} {
		client := http.Client{Timeout: readTime / 2}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, bytes.NewReader(make([]byte, length)))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Errorf("a review of %d bytes: %v", length, err)
			continue
		}
		text, err := io.ReadAll(answer.Body)
		if want := fmt.Sprint(length, " <nil>"); err != nil || string(text) != want {
			t.Errorf("a review of %d bytes: %s, %v", length, text, err)
		}
		_ = answer.Body.Close()
	}
}
