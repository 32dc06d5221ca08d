package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/internal/sha256hex"
)

// ErrUnchanged means that the server still has the known version.
var ErrUnchanged = errors.New("not modified")

// errRange means that a server's response to a range request has other bytes.
var errRange = errors.New("the server sent another range than requested")

// Location is the address of a blob on a web server.
type Location struct {
	Client Client
	URL    string
	// Known returns the version that the cache has. It is called just before the request. If the server still has this
	// version, the fetch ends with ErrUnchanged. nil means that no version is known.
	Known func() Version
}

// Version identifies the content of a URL (RFC 9110 §8.8).
type Version struct {
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"` // empty if it is too recent to be reliable
}

// cutError is an interrupted transfer.
type cutError struct {
	before, size int64 // of the partial, before and after this attempt
	err          error
}

func (e *cutError) Error() string { return e.err.Error() }
func (e *cutError) Unwrap() error { return e.err }

// continued fetches a blob with From. It does not request the bytes of the partial again.
func continued(ctx context.Context, c *cache.Cache, b Blob) (Stored, error) {
	from, err := b.From(ctx)
	if err != nil {
		return Stored{}, err
	}
	for {
		t := attempt{cache: c, blob: b, from: from}
		stored, err := t.run(ctx)
		// If the content arrived in two parts and does not match, the first part may be wrong. It is removed now.
		if t.offset == 0 || !errors.Is(err, cache.ErrMismatch) {
			return stored, err
		}
	}
}

// attempt is one attempt to fetch a blob.
type attempt struct {
	cache  *cache.Cache
	blob   Blob
	from   Location
	writer *cache.Writer
	offset int64 // size of the partial before this attempt
}

func (t *attempt) run(ctx context.Context) (stored Stored, err error) {
	if t.writer, err = t.cache.Continue(ctx, t.key()); err != nil {
		return Stored{}, err
	}
	defer func() { err = errors.Join(err, t.writer.Suspend()) }()
	if t.blob.SHA256 != "" { // another process may have just finished it
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
		return Stored{}, &cutError{before: before, size: t.writer.Size(), err: err}
	}
	digest, err := t.writer.Commit(t.blob.SHA256)
	if err != nil {
		return Stored{}, err
	}
	return Stored{SHA256: digest, Size: t.writer.Size(), Transferred: t.writer.Size() - t.offset, Version: version}, nil
}

// key names the partial: by the content's digest if known, otherwise by the URL.
func (t *attempt) key() string {
	if t.blob.SHA256 != "" {
		return "sha256-" + t.blob.SHA256
	}
	return "url-" + sha256hex.Of(t.from.URL)
}

// begun describes a partial without a known digest. With it, the rest of exactly the same content can be requested.
type begun struct {
	Validator string `json:"validator"` // for If-Range
	Total     int64  `json:"total"`     // bytes
	// Boot identifies the boot of the operating system. After a crash, the partial may have bytes that never reached the disk,
	// which no digest would reveal.
	Boot string `json:"boot"`
}

const transfers = "transfers"

// known returns the size of the whole blob and the validator of the partial's content. A transfer without a known size
// cannot be resumed. A blob with a digest needs no validator, because the digest is verified at the end.
func (t *attempt) known() (total int64, validator string) {
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

// transfer requests the missing bytes and writes them.
func (t *attempt) transfer(ctx context.Context, total int64, validator string) (Version, error) {
	resp, err := t.request(ctx, total, validator)
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

// request sends the request. The response has the requested range or the whole content.
func (t *attempt) request(ctx context.Context, total int64, validator string) (*http.Response, error) {
	header := make(http.Header)
	if t.from.Known != nil {
		t.from.Known().condition(header)
	}
	if t.offset > 0 {
		// A closed range, because the content of an open one may grow during the transfer.
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

// begin records the content of a transfer that starts at the first byte.
func (t *attempt) begin(resp *http.Response, version Version) error {
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

// versionOf returns the version in a response. It uses the modification time only if it is old enough that no later change
// can have the same time (RFC 9110 §8.8.2.2), because HTTP dates have whole seconds and clocks differ.
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

// strong returns a validator for byte-identical content: a strong ETag, the date, or "".
func (v Version) strong() string {
	if v.ETag != "" && !strings.HasPrefix(v.ETag, "W/") {
		return v.ETag
	}
	return v.LastModified
}

// condition makes the request conditional on a change since this version.
func (v Version) condition(header http.Header) {
	if v.ETag != "" {
		header.Set("If-None-Match", v.ETag)
	}
	if v.LastModified != "" {
		header.Set("If-Modified-Since", v.LastModified)
	}
}
