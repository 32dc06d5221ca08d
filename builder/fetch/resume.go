package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/sealift/sealift/builder/cache"
)

// ErrUnchanged says that a server had nothing newer than what is known.
var ErrUnchanged = errors.New("not modified")

// errRange says that a server answered a request for the rest of a blob with something else.
var errRange = errors.New("the server did not continue where it was asked to")

// Location is where a blob lies on the web.
type Location struct {
	Client Client
	URL    string
	// Known is asked, just before the request, which version is had already: the content is only wanted when it is
	// another, and else the transfer ends with ErrUnchanged. Nil means none.
	Known func() Version
}

// Version is what a server calls the content that a URL has (RFC 9110 §8.8).
type Version struct {
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"` // empty while it is too recent to be relied on
}

// cutError is a transfer that broke off.
type cutError struct {
	gained int64 // bytes by which the cache has more of the blob than before
	err    error
}

func (e *cutError) Error() string { return e.err.Error() }
func (e *cutError) Unwrap() error { return e.err }

// continued fetches a blob by its From. What arrived of it in an earlier attempt, or in another process that was killed,
// is asked for no more.
func continued(ctx context.Context, c *cache.Cache, b Blob) (Stored, error) {
	from, err := b.From(ctx)
	if err != nil {
		return Stored{}, err
	}
	for {
		t := transfer{cache: c, blob: b, from: from}
		stored, err := t.run(ctx)
		// Content that came in two parts and does not fit may be due to the first. That is gone now.
		if t.offset == 0 || !errors.Is(err, cache.ErrMismatch) {
			return stored, err
		}
	}
}

// transfer is one attempt to fetch a blob from its location.
type transfer struct {
	cache  *cache.Cache
	blob   Blob
	from   Location
	writer *cache.Writer
	offset int64 // bytes that arrived before
}

func (t *transfer) run(ctx context.Context) (stored Stored, err error) {
	if t.writer, err = t.cache.Continue(ctx, t.key()); err != nil {
		return Stored{}, err
	}
	defer func() { err = errors.Join(err, t.writer.Suspend()) }()
	if t.blob.SHA256 != "" { // whoever was fetching it a moment ago may have finished
		if stored, ok := cached(t.cache, t.blob); ok {
			t.writer.Discard()
			return stored, nil
		}
	}
	before := t.writer.Size()
	total, validator := t.known()
	if total <= 0 || before > total {
		if err := t.writer.Restart(); err != nil {
			return Stored{}, err
		}
	}
	t.offset = t.writer.Size()
	var version Version
	if t.offset == 0 || t.offset < total {
		version, err = t.transfer(ctx, total, validator)
	}
	switch {
	case errors.Is(err, ErrUnchanged), errors.Is(err, cache.ErrMismatch):
		t.writer.Discard()
		return Stored{}, err
	case err != nil:
		return Stored{}, &cutError{gained: t.writer.Size() - before, err: err}
	}
	digest, err := t.writer.Commit(t.blob.SHA256)
	if err != nil {
		return Stored{}, err
	}
	return Stored{SHA256: digest, Size: t.writer.Size(), Transferred: t.writer.Size() - t.offset, Version: version}, nil
}

// key names the partial: by the content where that is known, or else by the place.
func (t *transfer) key() string {
	if t.blob.SHA256 != "" {
		return "sha256-" + t.blob.SHA256
	}
	sum := sha256.Sum256([]byte(t.from.URL))
	return "url-" + hex.EncodeToString(sum[:])
}

// begun is what is remembered of a transfer whose digest nobody knows: with it the rest can be asked for, of exactly the
// content that the first part is of.
type begun struct {
	Validator string `json:"validator"` // for If-Range
	Total     int64  `json:"total"`     // bytes
	// Boot is the run of the operating system. After a crash of that, what a file seems to have may never have reached the
	// disk, and here no digest would tell.
	Boot string `json:"boot"`
}

const transfers = "transfers"

// known returns the size of the whole blob, and by what the server is to recognise the content that the partial is of.
// Without a size nothing can be continued. With a digest no validator is needed: it tells in the end.
func (t *transfer) known() (total int64, validator string) {
	if t.blob.SHA256 != "" {
		return t.blob.Size, ""
	}
	var b begun
	if !t.cache.Recall(transfers, t.from.URL, &b) || b.Validator == "" || b.Boot == "" || b.Boot != bootID() {
		return 0, ""
	}
	return b.Total, b.Validator
}

func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// transfer asks for what is missing and writes it.
func (t *transfer) transfer(ctx context.Context, total int64, validator string) (Version, error) {
	resp, err := t.ask(ctx, total, validator)
	if err != nil {
		return Version{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	version := versionOf(resp.Header)
	announced := resp.ContentLength
	switch resp.StatusCode {
	case http.StatusNotModified:
		return Version{}, ErrUnchanged
	case http.StatusPartialContent:
		announced = total
	default:
		if err := t.begin(resp, version); err != nil {
			return Version{}, err
		}
	}
	return version, take(t.blob, t.writer, resp.Body, announced)
}

// ask sends the request. Its answer is what was asked for, or the whole content.
func (t *transfer) ask(ctx context.Context, total int64, validator string) (*http.Response, error) {
	header := make(http.Header)
	if t.from.Known != nil {
		t.from.Known().condition(header)
	}
	if t.offset > 0 {
		// Closed, since the answer to an open range may grow while it is sent.
		header.Set("Range", fmt.Sprintf("bytes=%d-%d", t.offset, total-1))
		if validator != "" {
			header.Set("If-Range", validator)
		}
	}
	resp, err := t.from.Client.Get(ctx, t.from.URL, header)
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusRequestedRangeNotSatisfiable {
		return nil, errors.Join(fmt.Errorf("%w: %w", errRange, err), t.writer.Restart())
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusPartialContent {
		want := fmt.Sprintf("bytes %d-%d/", t.offset, total-1)
		if got := resp.Header.Get("Content-Range"); !strings.HasPrefix(got, want) {
			_ = resp.Body.Close()
			return nil, errors.Join(fmt.Errorf("%w: it sent %q, not %q", errRange, got, want), t.writer.Restart())
		}
	}
	return resp, nil
}

// begin notes what a transfer that starts at the first byte is of.
func (t *transfer) begin(resp *http.Response, version Version) error {
	if err := t.writer.Restart(); err != nil {
		return err
	}
	t.offset = 0
	if t.blob.SHA256 != "" {
		return nil
	}
	return t.cache.Remember(transfers, t.from.URL, begun{
		Validator: version.strong(), Total: resp.ContentLength, Boot: bootID(),
	})
}

// versionOf is what an answer says of its version. A date of modification counts only if it lies so far back that no
// later modification can have the same (RFC 9110 §8.8.2.2): dates have no fractions of a second, and clocks differ.
func versionOf(header http.Header) Version {
	v := Version{ETag: header.Get("ETag"), LastModified: header.Get("Last-Modified")}
	modified, err := http.ParseTime(v.LastModified)
	if err != nil {
		v.LastModified = ""
		return v
	}
	if sent, err := http.ParseTime(header.Get("Date")); err != nil || sent.Sub(modified) < time.Minute {
		v.LastModified = ""
	}
	return v
}

// strong is what identifies the content to the last byte: an ETag that is not weak, or the date, or nothing.
func (v Version) strong() string {
	if v.ETag != "" && !strings.HasPrefix(v.ETag, "W/") {
		return v.ETag
	}
	return v.LastModified
}

// condition asks the server to send content only if it differs from what is known.
func (v Version) condition(header http.Header) {
	if v.ETag != "" {
		header.Set("If-None-Match", v.ETag)
	}
	if v.LastModified != "" {
		header.Set("If-Modified-Since", v.LastModified)
	}
}
