// Package store is where packages live: put, get and list by key, with reads at any offset. A store is a folder, a bucket of
// an S3 server, or a web server that is only read.
//
// The package knows keys and bytes. What the bytes are, it never asks. Transient failures of a network are tried again in
// one place, Retry; every request has a bound in time.
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
)

// Errors that a caller may tell apart.
var (
	// ErrChanged says that a value is not, or no longer, the one that was expected: a Swap lost against another writer, or
	// an object was replaced while it was read.
	ErrChanged = errors.New("the stored value has changed")
	// ErrReadOnly says that a store takes no values.
	ErrReadOnly = errors.New("the store is read-only")
)

// Object is one stored value, open for reading at any offset, from several goroutines. All reads see the same value: if it is
// replaced meanwhile, they fail or go on with the old one.
type Object interface {
	io.ReaderAt
	io.Closer
	Size() int64 // bytes
	// Version identifies this value among all that have had its key; see Info.
	Version() string
	// SHA256 is the digest that the value was verified against when it was put there, lower-case hex; empty when the store
	// keeps none. Sum finds it out.
	SHA256() string
	// Reopen opens the same value once more, for reads that end with ctx. Nothing is asked of a server. It is a value of its
	// own: reads on one do not slow down those on the other, and each is closed. The error for one that is closed wraps
	// fs.ErrClosed, where that matters.
	Reopen(ctx context.Context) (Object, error)
}

// Info describes one stored value.
type Info struct {
	Key  string `json:"key"`
	Size int64  `json:"size"` // bytes
	// Version changes whenever the key gets another value, and means nothing outside its store: the ETag on a server, the
	// identity of the file in a folder. It is empty where a listing does not tell.
	Version string `json:"version,omitempty"`
}

// Store keeps values under slash-separated keys. A value appears whole or not at all.
type Store interface {
	// Get opens a value. Its error wraps fs.ErrNotExist when there is none. Reads end with ctx.
	Get(ctx context.Context, key string) (Object, error)
	// Put stores a value, replacing what is there, and returns its version.
	Put(ctx context.Context, key string, value Value) (version string, err error)
	// Swap stores a small value if the key has the version old, or, for an empty old, no value; else its error wraps
	// ErrChanged. Of several writers at once one succeeds, where the server has conditional writes: AWS has, and so have
	// folders. A server that has none stores the last.
	Swap(ctx context.Context, key string, data []byte, old string) (version string, err error)
	// List gives all values whose key begins with prefix, sorted by key.
	List(ctx context.Context, prefix string) ([]Info, error)
}

// Value is what Put stores, with the digests by which it is verified on its way: make it by Sum or Bytes.
type Value struct {
	Content io.ReaderAt
	Size    int64  // bytes
	SHA256  string // lower-case hex
	// Meter, if not nil, is told of progress: bytes that have just arrived, and bytes that had arrived in an earlier,
	// interrupted upload of the same value.
	Meter func(sent, kept int64)

	parts []string // sha256 of each part of an upload in parts
}

// Sum reads content once for the digests that a Value needs.
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
			return Value{}, fmt.Errorf("read bytes %d to %d: got %d: %w", off, off+want, n, errors.Join(err, shortOf(n, want)))
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
	v, _ := Sum(context.Background(), bytes.NewReader(data), int64(len(data))) // memory is always read
	return v
}

func (v Value) meter(sent, kept int64) {
	if v.Meter != nil {
		v.Meter(sent, kept)
	}
}

// Opener says how stores are opened.
type Opener struct {
	// Write says that values will be put: a store that takes none is not opened then, its error wraps ErrReadOnly.
	Write bool
	// Uploads is a folder that remembers uploads under way, so that an interrupted one is continued. Empty: not remembered.
	Uploads string
	// StaleAfter is the age from which an unfinished upload, of which nobody knows any more, is given up; 0 means 7 days.
	StaleAfter time.Duration
	Retry      Retry
	// Reads is how patiently reads of a value that was opened are tried again, by one who would rather wait for a server to
	// come back than begin anew; zero means as Retry says.
	Reads Retry
	// Redirect says whether a web server may lead to another address, by the error why not; nil means that it may.
	Redirect func(to *url.URL) error
	// Stall is how long a transfer may make no progress; 0 means one minute.
	Stall time.Duration
	Log   *slog.Logger // nil means to log nothing
	// AccessKey, where it has an ID, is used for buckets in place of what the AWS settings say.
	AccessKey AccessKey
	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(string) string
}

// AccessKey is a name and a secret for an S3 server.
type AccessKey struct{ ID, Secret string }

// Open opens the store at a URL, as Opener.Open does with an Opener that has nothing set.
func Open(location string) (Store, error) { return Opener{}.Open(location) }

// Open opens the store at a URL: file:///srv/packages or the path of a folder; s3://bucket/prefix, see S3Config; or
// https://host/path, which is read-only. Nothing is asked of a server yet.
func (o Opener) Open(location string) (Store, error) {
	if !strings.Contains(location, "://") {
		return openDir(location)
	}
	u, err := url.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("store %q is not a URL: %w", location, err)
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
	case "file":
		if u.Host != "" {
			return nil, fmt.Errorf("store %q names a host; a folder has three slashes: file:///%s%s", location, u.Host, u.Path)
		}
		return openDir(u.Path)
	case "s3":
		return o.openS3(location)
	case "http", "https":
		return o.openHTTP(u)
	}
	return nil, fmt.Errorf("store %q: scheme %q is not known; use file:///path, the path of a folder, s3://bucket/prefix or https://host/path", location, u.Scheme)
}

func checkKey(key string) error {
	if !fs.ValidPath(key) || key == "." || strings.ContainsAny(key, "\\\x00") {
		return fmt.Errorf("store key %q is not a clean relative path", key)
	}
	return nil
}

// PackageKey is where the package of an add-on lies.
func PackageKey(name, version string) (string, error) {
	key := name + "-" + version + ".tar.gz"
	if strings.Contains(key, "/") {
		return "", errors.New("the name and version of an add-on cannot have a slash")
	}
	return key, checkKey(key)
}
