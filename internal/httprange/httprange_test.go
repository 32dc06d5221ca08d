package httprange

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestRangesAreServedIgnoredOrRefused(t *testing.T) {
	for _, row := range []struct {
		content, asked, condition string
		status                    int
		contentRange, body        string
	}{
		{"0123456789", "", "", 200, "", "0123456789"},
		{"0123456789", "bytes=-3", "", 206, "bytes 7-9/10", "789"},
		{"0123456789", "bytes=-0", "", 416, "bytes */10", ""},
		{"0123456789", "bytes= - 00 ", "", 416, "bytes */10", ""},
		{"0123456789", "bytes=-+0", "", 416, "bytes */10", ""},
		{"0123456789", "bytes=10-", "", 416, "bytes */10", ""},
		{"0123456789", "bytes=0-0", "", 206, "bytes 0-0/10", "0"},
		{"0123456789", "bytes=0-0,-1", "", 200, "", "0123456789"},
		{"0123456789", "bytes=0-0,-0", "", 200, "", "0123456789"},
		{"0123456789", "bytes=-0", `"other"`, 200, "", "0123456789"}, // If-Range: the range belongs to another version
		{"0123456789", "Bytes=0-0", "", 206, "bytes 0-0/10", "0"},
		{"0123456789", "BYTES=-0", "", 416, "bytes */10", ""},
		{"0123456789", "lines=0-5", "", 200, "", "0123456789"},
		{"0123456789", "lines=-0", "", 200, "", "0123456789"},
		{"0123456789", "0-5", "", 200, "", "0123456789"},
		{"", "bytes=-0", "", 200, "", ""}, // as net/http responds to any range of an empty file
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if row.asked != "" {
			r.Header.Set("Range", row.asked)
		}
		if row.condition != "" {
			r.Header.Set("If-Range", row.condition)
		}
		w := httptest.NewRecorder()
		w.Header().Set("ETag", `"tag"`)
		Serve(w, r, time.Time{}, strings.NewReader(row.content))
		if w.Code != row.status || w.Header().Get("Content-Range") != row.contentRange || row.status < 400 && w.Body.String() != row.body {
			t.Errorf("%q of %q: %d %q %q, want %d %q %q", row.asked, row.content, w.Code, w.Header().Get("Content-Range"), w.Body, row.status, row.contentRange, row.body)
		}
	}
}
