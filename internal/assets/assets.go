// Package assets serves the style sheets and scripts of pages. Their names contain digests of their bytes, so that browsers keep them.
package assets

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"time"

	"github.com/sealift/sealift/internal/httprange"
)

// Set is the files of a site.
type Set struct {
	names map[string]string // by the names that the templates have
	files map[string]file   // by the names that browsers ask for
}

type file struct {
	kind string // media type
	data []byte
}

// Load reads files of a folder.
func Load(from fs.FS, folder string, names ...string) (Set, error) {
	s := Set{names: make(map[string]string), files: make(map[string]file)}
	for _, name := range names {
		data, err := fs.ReadFile(from, path.Join(folder, name))
		if err != nil {
			return s, err
		}
		sum := sha256.Sum256(data)
		s.names[name] = hex.EncodeToString(sum[:6]) + path.Ext(name)
		s.files[s.names[name]] = file{mime.TypeByExtension(path.Ext(name)), data}
	}
	return s, nil
}

// Name returns the name by which browsers ask for a file.
func (s Set) Name(name string) string { return s.names[name] }

// Serve answers a request for a file, and reports whether there is one of that name.
func (s Set) Serve(w http.ResponseWriter, r *http.Request, name string) bool {
	f, ok := s.files[name]
	if !ok {
		return false
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	httprange.Serve(w, r, time.Time{}, bytes.NewReader(f.data))
	return true
}
