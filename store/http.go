package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/transfer"
)

// ListingName is the file that lists the packages of a store on a web server. `sealift publish` maintains it: an object
// with a list "packages", each with "key" and "size".
const ListingName = "index.json"

// maxListing is the maximum size of a listing, in bytes: about 100,000 packages.
const maxListing = 64 << 20

// web is a read-only store on a web server that supports ranges.
type web struct {
	base   *url.URL
	client *http.Client
	opener Opener
}

func (o Opener) openHTTP(u *url.URL) (Store, error) {
	if u.Host == "" {
		return nil, fmt.Errorf("store %q names no host", u.Redacted())
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("store %q: a query or a fragment has no effect here; leave it out", u.Redacted())
	}
	w := &web{base: u, client: &http.Client{Transport: newTransport(o.CAs, o.Stall), CheckRedirect: o.checkRedirect}, opener: o}
	if o.Write {
		return nil, w.readOnly()
	}
	return w, nil
}

func (o Opener) checkRedirect(next *http.Request, before []*http.Request) error {
	if len(before) >= transfer.MaxRedirects {
		return fmt.Errorf("stopped after %d redirects", transfer.MaxRedirects)
	}
	if o.Redirect == nil {
		return nil
	}
	return o.Redirect(next.URL)
}

// Get implements Store. The server must answer HEAD with a length, and GET with the requested range.
func (w *web) Get(ctx context.Context, key string) (Object, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	at := &page{store: w, url: w.base.JoinPath(key)}
	r := &remote{ctx: ctx, name: at.url.Redacted(), src: at, opener: w.opener}
	err := w.opener.Retry.do(ctx, func(ctx context.Context) error {
		g := newGuard(ctx, w.opener.Stall)
		defer g.end()
		return g.explain(at.stat(g))
	})
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", w.base.Redacted(), err)
	}
	r.size, r.version = at.size, at.version()
	return r, nil
}

// Put implements Store.
func (w *web) Put(context.Context, string, Value) (string, error) { return "", w.readOnly() }

// Swap implements Store.
func (w *web) Swap(context.Context, string, []byte, string) (string, error) { return "", w.readOnly() }

func (w *web) readOnly() error {
	return fmt.Errorf("%s: %w; publish to the folder or the bucket behind it", w.base.Redacted(), ErrReadOnly)
}

// List implements Store. It reads the listing on the server.
func (w *web) List(ctx context.Context, prefix string) ([]Info, error) {
	o, err := w.Get(ctx, ListingName)
	if err != nil {
		return nil, fmt.Errorf("a web server can list only packages that 'sealift publish' put there: %w", err)
	}
	defer o.Close()
	var listing struct {
		Packages []struct {
			Key  string
			Size int64
		}
	}
	if o.Size() > maxListing {
		return nil, fmt.Errorf("%s of %s has %d bytes, which is too large", ListingName, w.base.Redacted(), o.Size())
	}
	if err := json.NewDecoder(io.NewSectionReader(o, 0, o.Size())).Decode(&listing); err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", ListingName, w.base.Redacted(), err)
	}
	var infos []Info
	for _, p := range listing.Packages {
		if strings.HasPrefix(p.Key, prefix) {
			infos = append(infos, Info{Key: p.Key, Size: p.Size})
		}
	}
	slices.SortFunc(infos, byKey)
	return infos, nil
}

// page is one value on a web server, in the version that HEAD returned.
type page struct {
	store *web
	url   *url.URL
	size  int64
	etag  string // empty if the server sends none
	date  string // Last-Modified
}

func (p *page) version() string {
	if p.etag != "" {
		return p.etag
	}
	return p.date
}

// request sends a request. It returns the response if its status is among wanted.
func (p *page) request(ctx context.Context, method string, header map[string]string, wanted ...int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, transfer.EscapePlus(p.url).String(), nil)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	req.Header.Set("User-Agent", "sealift")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := p.store.client.Do(req)
	if err != nil {
		return nil, err
	}
	if slices.Contains(wanted, resp.StatusCode) {
		return resp, nil
	}
	_ = resp.Body.Close()
	err = &statusError{url: transfer.Redacted(resp.Request.URL), code: resp.StatusCode}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusGone:
		return nil, errors.Join(err, fs.ErrNotExist)
	case http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		return nil, fmt.Errorf("%w: %w; start again", ErrChanged, err)
	}
	return nil, err
}

func (p *page) stat(ctx context.Context) error {
	resp, err := p.request(ctx, http.MethodHead, nil, http.StatusOK)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.ContentLength < 0 {
		return fmt.Errorf("the server does not send the length of %s", transfer.Redacted(p.url))
	}
	p.size, p.etag, p.date = resp.ContentLength, resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")
	return nil
}

// open implements ranges.
func (p *page) open(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	header := map[string]string{"Range": fmt.Sprintf("bytes=%d-%d", off, off+n-1)}
	switch {
	case p.etag != "" && !strings.HasPrefix(p.etag, "W/"): // If-Match never matches a weak ETag (RFC 9110 §13.1.1)
		header["If-Match"] = p.etag
	case p.etag == "" && p.date != "":
		header["If-Unmodified-Since"] = p.date
	}
	resp, err := p.request(ctx, http.MethodGet, header, http.StatusOK, http.StatusPartialContent)
	if err != nil {
		return nil, err
	}
	if err := p.check(resp, off, n); err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	return resp.Body, nil
}

// check refuses a response with other bytes than requested.
func (p *page) check(resp *http.Response, off, n int64) error {
	if etag := resp.Header.Get("ETag"); etag != p.etag || p.etag == "" && resp.Header.Get("Last-Modified") != p.date {
		return fmt.Errorf("%s: %w; start again", transfer.Redacted(p.url), ErrChanged)
	}
	if resp.StatusCode == http.StatusOK {
		if off == 0 && resp.ContentLength == n { // the whole value was requested
			return nil
		}
		return fmt.Errorf("the server of %s does not support ranges; download the package and use a folder as store", transfer.Redacted(p.url))
	}
	if err := checkRange(resp.Header.Get("Content-Range"), off, n, p.size); err != nil {
		return fmt.Errorf("%s: %w", transfer.Redacted(p.url), err)
	}
	return nil
}
