// Package store keeps packages: it puts, gets and lists values by key and reads them at any offset. A store is a folder, a
// bucket on an S3 server, a repository of a container registry, or a read-only web server.
//
// The package knows keys and bytes, but not what the bytes mean. Retry is the only place that retries transient network
// failures. Every request has a timeout.
package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/transfer"
	"github.com/sealift/sealift/internal/trust"
)

// Errors that callers can check for.
var (
	// ErrChanged reports that a value is not the expected one: a Swap lost against another writer, or an object was replaced
	// while it was read.
	ErrChanged = errors.New("the stored value has changed")
	// ErrReadOnly reports that a store accepts no writes.
	ErrReadOnly = errors.New("the store is read-only")
)

// Object is one stored value, open for reads at any offset from several goroutines. All reads see the same value. If it is
// replaced in the meantime, reads fail or continue with the old value.
type Object interface {
	io.ReaderAt
	io.Closer
	Size() int64 // bytes
	// Version identifies this value among all values that the key has had; see Info.
	Version() string
	// SHA256 is the digest that was verified when the value was put, in lower-case hex. It is empty if the store keeps no
	// digest; Sum computes it then.
	SHA256() string
	// Reopen opens the same value again, for reads that end with ctx. It sends no request. Reads on the two objects are
	// independent, and each must be closed. If the object is already closed, the error wraps fs.ErrClosed.
	Reopen(ctx context.Context) (Object, error)
}

// Info describes one stored value.
type Info struct {
	Key  string `json:"key"`
	Size int64  `json:"size"` // bytes
	// Version changes whenever the key gets another value, and has a meaning only within its store: the ETag on a server,
	// the identity of the file in a folder. It is empty if a listing does not include it.
	Version string `json:"version,omitempty"`
}

// Store keeps values under slash-separated keys. Readers never see a partial value.
type Store interface {
	// Get opens a value. If it does not exist, the error wraps fs.ErrNotExist. Reads end with ctx.
	Get(ctx context.Context, key string) (Object, error)
	// Put stores a value, replacing the old one, and returns its version.
	Put(ctx context.Context, key string, value Value) (version string, err error)
	// Swap stores a small value if the key still has the version old; an empty old means no value. Otherwise the error
	// wraps ErrChanged. Folders and AWS guarantee that only one of several concurrent writers succeeds. On a server without
	// conditional writes, and in a registry, the last writer wins.
	Swap(ctx context.Context, key string, data []byte, old string) (version string, err error)
	// List returns all values whose key begins with prefix, sorted by key.
	List(ctx context.Context, prefix string) ([]Info, error)
}

// Value is the content for Put, with the digests that verify the upload. Make it with Sum or Bytes.
type Value struct {
	Content io.ReaderAt
	Size    int64  // bytes
	SHA256  string // lower-case hex
	// Meter, if not nil, receives progress: the bytes that have just arrived, and the bytes that an earlier, interrupted
	// upload had sent.
	Meter func(sent, kept int64)

	parts []string // sha256 of each part of an upload in parts
}

// Sum reads content once and computes the digests of a Value.
func Sum(ctx context.Context, content io.ReaderAt, size int64) (Value, error) {
	v := Value{Content: content, Size: size}
	whole := sha256.New()
	length := partSize(size)
	for off := int64(0); off < size; off += length {
		if err := ctx.Err(); err != nil {
			return Value{}, context.Cause(ctx)
		}
		part := sha256.New()
		want := min(length, size-off)
		if n, err := io.Copy(io.MultiWriter(whole, part), io.NewSectionReader(content, off, want)); err != nil || n != want {
			return Value{}, fmt.Errorf("read bytes %d to %d, got %d: %w", off, off+want, n, errors.Join(err, shortOf(n, want)))
		}
		v.parts = append(v.parts, hex.EncodeToString(part.Sum(nil)))
	}
	v.SHA256 = hex.EncodeToString(whole.Sum(nil))
	return v, nil
}

func shortOf(n, want int64) error {
	if n < want {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// Bytes returns the value of data, which is small.
func Bytes(data []byte) Value {
	v, _ := Sum(context.Background(), bytes.NewReader(data), int64(len(data))) // reading memory does not fail
	return v
}

func (v Value) meter(sent, kept int64) {
	if v.Meter != nil {
		v.Meter(sent, kept)
	}
}

// Opener holds the options for opening stores.
type Opener struct {
	// Write means that the caller will put values. Opening a read-only store then fails with ErrReadOnly.
	Write bool
	// Uploads is a folder for upload journals, which let a later run resume an interrupted upload. If empty, uploads cannot
	// be resumed.
	Uploads string
	// StaleAfter is the age at which an unfinished upload is aborted; 0 means 7 days.
	StaleAfter time.Duration
	Retry      Retry
	// Reads configures the retries of reads from an open value. A caller that cannot start again sets it to wait longer for
	// a server. The zero value means the same as Retry.
	Reads Retry
	// Redirect decides whether a web server may redirect to another address: a non-nil error forbids it. nil allows every
	// redirect.
	Redirect func(to *url.URL) error
	// Stall is the longest time a transfer may make no progress; 0 means one minute.
	Stall time.Duration
	// Pace is the least speed of a read.
	Pace transfer.Pace
	Log  *slog.Logger // nil logs nothing
	// AccessKey, if it has an ID, replaces the credentials of the AWS settings.
	AccessKey AccessKey
	// CAs are trusted for servers.
	CAs trust.CAs
	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(string) string
}

// AccessKey is a name and a secret for an S3 server.
type AccessKey struct{ ID, Secret string }

// Folder returns the path of a store that is a folder, or "" for a store on a server, and for a URL that Open refuses.
func Folder(location string) string {
	path, _, err := locate(location)
	if err != nil {
		return ""
	}
	return path
}

// locate returns the path of a folder, or the URL of a server. RFC 8089 has file:///path, file:/path and file://localhost/path.
func locate(location string) (folder string, server *url.URL, err error) {
	if !strings.Contains(location, "://") && !strings.HasPrefix(location, "file:/") {
		return location, nil, nil
	}
	u, err := url.Parse(location)
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("store %q is not a URL: %w", location, err)
	case u.Scheme != "file":
		return "", u, nil
	case u.Host != "" && u.Host != "localhost":
		return "", nil, fmt.Errorf("store %q names a host; a folder has three slashes: file:///%s%s", location, u.Host, u.Path)
	}
	return u.Path, nil, nil
}

// Open opens the store at a URL with the default options.
func Open(location string) (Store, error) { return Opener{}.Open(location) }

// Open opens the store at a URL: file:///srv/packages or the path of a folder; s3://bucket/prefix, see S3Config;
// oci://registry/repository; or https://host/path, which is read-only. It sends no request.
func (o Opener) Open(location string) (Store, error) {
	folder, u, err := locate(location)
	if err != nil {
		return nil, err
	}
	if u == nil {
		return openDir(folder)
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.StaleAfter == 0 {
		o.StaleAfter = 7 * 24 * time.Hour
	}
	if o.Stall == 0 {
		o.Stall = time.Minute
	}
	if o.Reads == (Retry{}) {
		o.Reads = o.Retry
	}
	switch u.Scheme {
	case "s3":
		return o.openS3(location)
	case "http", "https":
		return o.openHTTP(u)
	case "oci":
		return o.openRegistry(location)
	}
	return nil, fmt.Errorf("store %q: scheme %q is not known; use file:///path, the path of a folder, s3://bucket/prefix, oci://registry/repository or https://host/path", location, u.Scheme)
}

func checkKey(key string) error {
	if !fs.ValidPath(key) || key == "." || strings.ContainsAny(key, "\\\x00") {
		return fmt.Errorf("store key %q is not a clean relative path", key)
	}
	return nil
}

// PackageKey returns the key of an add-on's package.
func PackageKey(name, version string) (string, error) {
	key := name + "-" + version + ".tar.gz"
	if strings.Contains(key, "/") {
		return "", errors.New("the name and version of an add-on cannot contain a slash")
	}
	return key, checkKey(key)
}
