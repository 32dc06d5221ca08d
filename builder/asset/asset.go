// Package asset brings single files into a package as they are: from a URL, through mirrors, or from the file system.
// Nothing is unpacked, renamed by its server, or made executable.
//
// Unless it is locked to its content, an asset from a URL is asked for again in every build, since a URL promises nothing
// about tomorrow; what the server said of its version (ETag, Last-Modified) is remembered, so that an unchanged file is
// not transferred again.
package asset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"github.com/sealift/sealift/builder/packfile"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/manifest/repository"
)

// maxSize bounds an asset from a URL whose size nobody knows beforehand, in bytes. It keeps a server that never ends from
// filling the disk.
const maxSize = 64 << 30

// Resolved is an asset whose content is known.
type Resolved struct {
	Name   string `json:"name"`
	Source string `json:"source"` // the URL that upstream has it at, or a path as the Manifest has it
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"` // bytes
	// Fetched is how many bytes were transferred to find out.
	Fetched int64 `json:"-"`

	open Opener // of a source on the file system; nil for a URL, whose content is in the cache
}

// Opener opens a regular file of an add-on's repository by its path from the directory of the Manifest.
type Opener func(name string) (*os.File, error)

// Describe is the asset as the index of a package lists it; dir is the folder of assets.
func (r Resolved) Describe(dir string) bundle.Asset {
	return bundle.Asset{Name: r.Name, Path: path.Join(dir, r.Name), Source: r.Source, SHA256: r.SHA256, Size: r.Size}
}

// Pack is the asset as a file of a package.
func (r Resolved) Pack(dir string, c *cache.Cache) bundle.File {
	f := packfile.Cached(path.Join(dir, r.Name), c, r.SHA256, r.Size)
	if r.open != nil {
		f.Open = func() (io.ReadCloser, error) { return r.open(r.Source) }
	}
	return f
}

// Options says how assets are fetched.
type Options struct {
	Cache   *cache.Cache
	Fetcher fetch.Fetcher // brings blobs into Cache
	Mirrors mirror.Set
	Client  fetch.Client
}

// Source resolves assets. It may be used from several goroutines.
type Source struct{ options Options }

// NewSource returns a source of assets.
func NewSource(o Options) *Source { return &Source{options: o} }

// Error says that an asset could not be had.
type Error struct {
	Source string // as the Manifest has it
	Asked  string // the URL that a mirror put in its place, if any
	Err    error
}

func (e *Error) Error() string {
	if e.Asked != "" {
		return fmt.Sprintf("asset %s (mirror %s): %v", shown(e.Source), shown(e.Asked), e.Err)
	}
	return fmt.Sprintf("asset %s: %v", shown(e.Source), e.Err)
}

// shown leaves out the password of a URL: that of a mirror is known to sealift.yaml alone, and errors go into logs of CI.
func shown(source string) string {
	if u, err := url.Parse(source); err == nil && u.User != nil {
		return u.Redacted()
	}
	return source
}

func (e *Error) Unwrap() error { return e.Err }

// Hint says what to do next, or is empty.
func (e *Error) Hint() string {
	var status *fetch.StatusError
	switch {
	case errors.Is(e.Err, repository.ErrOutside):
		return "a Manifest takes files of its repository and of URLs, nothing else of the machine that builds"
	case errors.Is(e.Err, os.ErrNotExist):
		return "a path is relative to the directory of the Manifest; a URL starts with https://"
	case errors.As(e.Err, &status) && status.Code < 500 && e.Asked != "":
		return "check the URL, and that the mirror in sealift.yaml has the file"
	case errors.As(e.Err, &status) && status.Code < 500:
		return "check the URL"
	case errors.Is(e.Err, cache.ErrMismatch):
		return "the URL no longer has what it was locked to: use a mirror that keeps it, or lock the add-on anew with sealift lock --update"
	case fetch.Transient(e.Err):
		return "check the network, or name a mirror in sealift.yaml"
	}
	return ""
}

// IsURL tells a source on the web from one on the file system.
func IsURL(source string) bool {
	return strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "http://")
}

// Resolve makes the content of an asset known: that of a URL is then in the cache, that of a file, which open opens, is
// hashed in place. Failures are *Error.
func (s *Source) Resolve(ctx context.Context, open Opener, name, source string) (Resolved, error) {
	r := Resolved{Name: name, Source: source}
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

// Fetch brings the content of an asset into the cache that a URL had when it was locked. Failures are *Error; when the URL
// has other content by now, the error wraps cache.ErrMismatch.
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
	e := &Error{Source: source, Err: err}
	if address := s.options.Mirrors.URL(source); address != source {
		e.Asked = address
	}
	return e
}

func (r *Resolved) fromFile(open Opener) error {
	f, err := open(r.Source)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	size, err := io.Copy(h, f)
	if err != nil {
		return err
	}
	r.open, r.Size, r.SHA256 = open, size, hex.EncodeToString(h.Sum(nil))
	return nil
}

// known is what is remembered of a URL: what the server called the content, and which content that was.
type known struct {
	fetch.Version
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

const urls = "urls"

// known returns what is known of a URL and in the cache, or nothing.
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
		Name: r.Name, Limit: maxSize,
		From: func(context.Context) (fetch.Location, error) {
			return fetch.Location{Client: s.options.Client, URL: address, Known: func() fetch.Version {
				before = s.known(address)
				return before.Version
			}}, nil
		},
	})
	if errors.Is(err, fetch.ErrUnchanged) {
		r.SHA256, r.Size = before.SHA256, before.Size
		return nil
	}
	if err != nil {
		return err
	}
	r.SHA256, r.Size, r.Fetched = stored.SHA256, stored.Size, stored.Transferred
	return s.options.Cache.Remember(urls, address, known{Version: stored.Version, SHA256: stored.SHA256, Size: stored.Size})
}
