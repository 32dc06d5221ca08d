// Package asset brings single files into a package unchanged: from a URL, through mirrors, or from the file system. It
// never unpacks a file, makes it executable, or lets a server rename it.
//
// Every build requests an unlocked URL again, because its content may change. The package remembers the version that the server
// reported (ETag, Last-Modified), so that an unchanged file is not transferred again.
package asset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/internal/transfer"
	"github.com/sealift/sealift/manifest/repository"
)

// maxSize is the largest asset, in bytes, from a URL whose size is not known in advance. It keeps an endless response from
// filling the disk.
const maxSize = 64 << 30

// Resolved is an asset with known content.
type Resolved struct {
	bundle.Asset // without Path
	// Fetched is the number of bytes transferred to resolve it.
	Fetched int64 `json:"-"`

	open Opener // opens a file; nil for a URL, whose content is in the cache
}

// Pinned returns an asset of known content from a URL.
func Pinned(name, url string, content bundle.Blob) Resolved {
	return Resolved{Asset: bundle.Asset{Name: name, Source: url, Blob: content}}
}

// Opener opens a regular file of an add-on's repository. The path is relative to the Manifest.
type Opener func(name string) (*os.File, error)

// Describe returns the asset as the index of a package lists it. dir is the folder of assets.
func (r Resolved) Describe(dir string) bundle.Asset {
	r.Path = path.Join(dir, r.Name)
	return r.Asset
}

// Pack returns the asset as a file of a package.
func (r Resolved) Pack(dir string, c *cache.Cache) bundle.File {
	f := c.File(path.Join(dir, r.Name), r.Blob)
	if r.open != nil {
		f.Open = func() (io.ReadCloser, error) { return r.open(r.Source) }
	}
	return f
}

// Options configures a Source.
type Options struct {
	Cache   *cache.Cache
	Fetcher fetch.Fetcher // brings blobs into Cache
	Mirrors mirror.Set
	Client  fetch.Client
	What    string // what errors call an asset; empty means that
	Limit   int64  // the most bytes that are accepted of unknown content; 0 means 64 GiB
}

// Source resolves assets. It may be used from several goroutines.
type Source struct{ options Options }

// NewSource returns a source of assets.
func NewSource(o Options) *Source { return &Source{options: o} }

// Error reports that an asset could not be fetched or read.
type Error struct {
	What   string // kind of the request; empty means an asset
	Source string // as in the Manifest
	Asked  string // the URL of the mirror, if there is one
	Err    error
}

func (e *Error) Error() string {
	if e.Asked != "" {
		return fmt.Sprintf("%s %s (mirror %s): %v", cmp.Or(e.What, "asset"), transfer.Shown(e.Source), transfer.Shown(e.Asked), e.Err)
	}
	return fmt.Sprintf("%s %s: %v", cmp.Or(e.What, "asset"), transfer.Shown(e.Source), e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Hint returns what to do next, or "".
func (e *Error) Hint() string {
	var status *fetch.StatusError
	switch {
	case errors.Is(e.Err, repository.ErrOutside):
		return "a Manifest can name only files of its own repository and URLs"
	case errors.Is(e.Err, os.ErrNotExist):
		return "a path is relative to the directory of the Manifest; a URL starts with https://"
	case errors.As(e.Err, &status) && status.Code < 500 && e.Asked != "":
		return "check the URL, and that the mirror in sealift.yaml has the file"
	case errors.As(e.Err, &status) && status.Code < 500:
		return "check the URL"
	case errors.Is(e.Err, cache.ErrMismatch):
		return "the URL no longer has the locked content: use a mirror that keeps it, or lock the add-on again with sealift lock --update"
	case fetch.Transient(e.Err):
		return "check the network, or name a mirror in sealift.yaml"
	}
	return ""
}

// IsURL reports whether a source is a URL and not a path.
func IsURL(source string) bool {
	return strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "http://")
}

// Resolve determines the content of an asset. The content of a URL is in the cache afterwards; a file is opened with open, which
// is nil if only URLs are expected, and hashed in place. Failures are *Error.
func (s *Source) Resolve(ctx context.Context, open Opener, name, source string) (Resolved, error) {
	r := Resolved{Asset: bundle.Asset{Name: name, Source: source}}
	if !IsURL(source) {
		if err := r.fromFile(open); err != nil {
			return Resolved{}, &Error{Source: source, Err: err}
		}
		return r, nil
	}
	if err := s.fromURL(ctx, &r); err != nil {
		return Resolved{}, s.wrap(source, err)
	}
	return r, nil
}

// Fetch brings the locked content of a URL into the cache. Failures are *Error. If the URL has other content now, the error
// wraps cache.ErrMismatch.
func (s *Source) Fetch(ctx context.Context, r Resolved) (fetch.Stored, error) {
	if r.open != nil {
		return fetch.Stored{SHA256: r.SHA256, Size: r.Size, Cached: true}, nil
	}
	stored, err := s.options.Fetcher.Fetch(ctx, fetch.Blob{
		Name: r.Name, SHA256: r.SHA256, Size: r.Size,
		From: func(context.Context) (fetch.Location, error) {
			return fetch.Location{Client: s.options.Client, URL: s.options.Mirrors.URL(r.Source)}, nil
		},
	})
	if err != nil {
		return fetch.Stored{}, s.wrap(r.Source, err)
	}
	return stored, nil
}

func (s *Source) wrap(source string, err error) error {
	e := &Error{What: s.options.What, Source: source, Err: err}
	if address := s.options.Mirrors.URL(source); address != source {
		e.Asked = address
	}
	return e
}

func (r *Resolved) fromFile(open Opener) error {
	if open == nil {
		return errors.New("not a URL with https:// or http://")
	}
	f, err := open(r.Source)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	r.open = open
	r.SHA256, r.Size, err = sha256hex.Read(f)
	return err
}

// known is the last known version of a URL and the digest of its content.
type known struct {
	fetch.Version
	bundle.Blob
}

const urls = "urls"

// known returns the last known version of a URL if its content is in the cache.
func (s *Source) known(address string) known {
	var k known
	if !s.options.Cache.Recall(urls, address, &k) {
		return known{}
	}
	if size, ok := s.options.Cache.Use(k.SHA256); !ok || size != k.Size {
		return known{}
	}
	return k
}

func (s *Source) fromURL(ctx context.Context, r *Resolved) error {
	address := s.options.Mirrors.URL(r.Source)
	if u, err := url.Parse(address); err != nil {
		return err
	} else if u.Host == "" {
		return errors.New("the URL has no host")
	}
	var before known
	stored, err := s.options.Fetcher.Fetch(ctx, fetch.Blob{
		Name: r.Name, Limit: cmp.Or(s.options.Limit, maxSize),
		From: func(context.Context) (fetch.Location, error) {
			return fetch.Location{Client: s.options.Client, URL: address, Known: func() fetch.Version {
				before = s.known(address)
				return before.Version
			}}, nil
		},
	})
	if errors.Is(err, fetch.ErrUnchanged) {
		r.Blob = before.Blob
		return nil
	}
	if err != nil {
		return err
	}
	r.SHA256, r.Size, r.Fetched = stored.SHA256, stored.Size, stored.Transferred
	return s.options.Cache.Remember(urls, address, known{Version: stored.Version, Blob: r.Blob})
}
