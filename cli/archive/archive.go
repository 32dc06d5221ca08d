// Package archive opens packages and bundles for commands, wherever they are, and has the command that verifies them.
package archive

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/store"
)

// Open opens a package or a bundle and returns its size in bytes, or zero if it is unpacked. location is a path or the URL of
// a file in a store. From a URL, only the parts that are used are read. If there are trusted keys, an archive that none of
// them signed is refused before its index is parsed.
func Open(ctx context.Context, opener store.Opener, location string, trusted ...signature.PublicKey) (_ *bundle.Archive, size int64, err error) {
	if !strings.Contains(location, "://") {
		info, err := os.Stat(location)
		if err != nil {
			return nil, 0, err
		}
		if info.Mode().IsRegular() {
			size = info.Size()
		}
		archive, err := bundle.Open(location, trusted...)
		return archive, size, err
	}
	parent, key, err := splitURL(location)
	if err != nil {
		return nil, 0, err
	}
	s, err := opener.Open(parent)
	if err != nil {
		return nil, 0, err
	}
	object, err := s.Get(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	archive, err := bundle.OpenSource(object, trusted...)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", location, err)
	}
	return archive, object.Size(), nil
}

// splitURL splits the URL of a file into the URL of its store and the file's key.
func splitURL(location string) (parent, key string, err error) {
	u, err := url.Parse(location)
	if err != nil {
		return "", "", app.UsageError("%q is not a URL: %v", location, err)
	}
	dir, key := path.Split(u.Path)
	if key == "" {
		return "", "", app.UsageError("%s names no file; give the URL of an archive, such as https://host/packages/flannel-0.26.7.tar.gz", u.Redacted())
	}
	u.Path, u.RawPath = dir, ""
	return u.String(), key, nil
}

// Summary is the output of inspect for an archive.
type Summary struct {
	Path   string `json:"path"`
	Digest string `json:"digest"` // of the index
	Size   int64  `json:"size"`   // bytes of the archive; zero for an unpacked one
	Signed bool   `json:"signed"` // by any key
	bundle.Index
}

// Summarize describes an archive at a path, and its size in bytes.
func Summarize(a *bundle.Archive, path string, size int64) Summary {
	return Summary{Path: path, Digest: a.Digest, Size: size, Signed: a.Signed(), Index: a.Index}
}
