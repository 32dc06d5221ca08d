package share

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/sealift/sealift/bundle"
)

// The shelf has bundles in addition to the node's own. A name on the shelf is the sha256 of the index of a bundle. It is the folder
// into which the bundle is unpacked, or a link to that folder. Nodes get the images of these bundles. All other files stay here: they
// may have secrets.

// digest is a sha256, in hex. It is also a name on the shelf.
var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// onShelf returns a bundle of the shelf.
func (s *Server) onShelf(r *http.Request) (folder string, x *index, err error) {
	name := r.PathValue("index")
	if s.Shelf == "" || !digest.MatchString(name) {
		return "", nil, fmt.Errorf("bundle %q: %w", name, fs.ErrNotExist)
	}
	folder = filepath.Join(s.Shelf, name)
	x, err = s.readFolder(folder)
	return folder, x, err
}

func (s *Server) shelfIndex(w http.ResponseWriter, r *http.Request, _ client) error {
	_, x, err := s.onShelf(r)
	if err != nil {
		return err
	}
	data, _ := x.archive.Raw()
	_, _ = w.Write(data)
	return nil
}

func (s *Server) shelfVerdict(w http.ResponseWriter, r *http.Request, _ client) error {
	_, x, err := s.onShelf(r)
	if err != nil {
		return err
	}
	return sendVerdict(w, x)
}

func (s *Server) shelfImage(w http.ResponseWriter, r *http.Request, _ client) error {
	folder, x, err := s.onShelf(r)
	if err != nil {
		return err
	}
	entries := slices.DeleteFunc(slices.Clone(x.byDigest[r.PathValue("sha256")]), func(e bundle.Entry) bool { return !x.archive.Index.OfImage(e) })
	blob, err := openFile(folder, entries)
	if err != nil {
		return err
	}
	if blob == nil {
		return fmt.Errorf("%s: %w among the images of the bundle", r.PathValue("sha256"), fs.ErrNotExist)
	}
	return serveBlob(w, r, blob)
}

// Shelved returns a bundle from the shelf of the node, by the sha256 of its index. The files of its images are fetched when they
// are read, until ctx ends; there are no others.
func (c *Client) Shelved(ctx context.Context, sha256 string) (*bundle.Archive, error) {
	at := shelfPath + sha256
	index, err := c.read(ctx, http.MethodGet, at+shelfIndex, nil, maxAnswer)
	if err != nil {
		return nil, err
	}
	a, err := bundle.NewUnpacked(index, nil, func(e bundle.Entry) (io.ReadCloser, error) {
		return c.open(ctx, e, at+shelfImages+e.SHA256), nil
	})
	if err == nil && a.Digest != sha256 {
		return nil, errors.Join(fmt.Errorf("%s serves the bundle %s, not %s", c.address, a.Digest, sha256), a.Close())
	}
	if err == nil {
		a.SetVerdict(c.verdict(ctx, at+shelfVerdict))
	}
	return a, err
}
