package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/httprange"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// files serves a fixed table of files, with ETag, Range and conditional requests.
type files struct {
	table map[string]servedFile
}

// servedFile is a file on disk, or for a checksum its text.
type servedFile struct {
	path string
	text string
	etag string
}

// newFiles builds missing files and reads every file once for its checksum.
func newFiles(ctx context.Context, w *upstream.Workshop, downloads []upstream.Download) (*files, error) {
	f := &files{table: map[string]servedFile{}}
	for _, d := range downloads {
		local, err := w.File(ctx, d.Source)
		if err != nil {
			return nil, fmt.Errorf("make %s: %w", d.URL, err)
		}
		sum, err := sha256Of(local)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", d.URL, err)
		}
		f.table["/"+d.URL] = servedFile{path: local, etag: `"` + sum + `"`}
		if d.Checksum != "" {
			f.table["/"+d.URL+d.Checksum] = servedFile{text: checksumText(d, sum), etag: `"sum-` + sum + `"`}
		}
	}
	return f, nil
}

// checksumText is a checksum as upstream writes it: dl.k8s.io the bare digest, others as sha256sum does.
func checksumText(d upstream.Download, sum string) string {
	if strings.HasPrefix(d.URL, "dl.k8s.io/") {
		return sum
	}
	return sum + "  " + path.Base(d.URL) + "\n"
}

func sha256Of(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (f *files) hosts() []string {
	var names []string
	for name := range f.table {
		names = append(names, strings.TrimPrefix(name, "/"))
	}
	return hostsOf(names)
}

func (f *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	entry, ok := f.table[r.URL.Path]
	if !ok {
		http.Error(w, "the lab's mirror has no "+strings.TrimPrefix(r.URL.Path, "/"), http.StatusNotFound)
		return
	}
	w.Header().Set("ETag", entry.etag)
	w.Header().Set("Content-Type", "application/octet-stream")
	if entry.path == "" {
		httprange.Serve(w, r, time.Time{}, strings.NewReader(entry.text))
		return
	}
	file, err := os.Open(entry.path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer file.Close()
	httprange.Serve(w, r, time.Time{}, file)
}
