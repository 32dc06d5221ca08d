// Package httprange serves content by ranges of bytes, as http.ServeContent does, with three differences. A range of no bytes (bytes=-0)
// is answered 416 (RFC 9110 §14.1.2), where http.ServeContent sends a Content-Range that cannot be. A range in another unit than bytes is
// ignored, as RFC 9110 §14.2 demands; the unit may be written in capitals. Several ranges at once are ignored, as RFC 9110 §14.2 allows:
// each could cost a request to a store.
package httprange

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Serve answers a request with content, or with the requested range. modified is zero if unknown.
func Serve(w http.ResponseWriter, r *http.Request, modified time.Time, content io.ReadSeeker) {
	unit, set, _ := strings.Cut(r.Header.Get("Range"), "=")
	switch {
	case !strings.EqualFold(strings.TrimSpace(unit), "bytes") || strings.Contains(set, ","):
		r.Header.Del("Range")
	case isEmpty(set):
		size, err := content.Seek(0, io.SeekEnd)
		if err != nil {
			http.Error(w, "the content cannot be read", http.StatusInternalServerError)
			return
		}
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", size)) // nothing exists there, either
	default:
		r.Header.Set("Range", "bytes="+set)
	}
	http.ServeContent(w, r, "", modified, content)
}

// isEmpty reports whether a range set, such as "-0", is for the last 0 bytes.
func isEmpty(set string) bool {
	first, last, cut := strings.Cut(set, "-")
	n, err := strconv.ParseInt(strings.TrimSpace(last), 10, 64)
	return cut && strings.TrimSpace(first) == "" && err == nil && n == 0
}
