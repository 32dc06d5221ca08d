// Package store is where packages live: put, get and list by key, with reads at any offset.
//
// The package knows keys and bytes. What the bytes are, it never asks.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"
)

// Object is one stored value, open for reading at any offset.
type Object interface {
	io.ReaderAt
	io.Closer
	Size() int64 // bytes
}

// Info describes one stored value.
type Info struct {
	Key  string `json:"key"`
	Size int64  `json:"size"` // bytes
}

// Store keeps values under slash-separated keys. A value appears whole or not at all.
type Store interface {
	// Get opens a value. Its error wraps fs.ErrNotExist when there is none.
	Get(ctx context.Context, key string) (Object, error)
	// Put stores a value, replacing what is there.
	Put(ctx context.Context, key string, value io.Reader) error
	// List gives all values whose key begins with prefix, sorted by key.
	List(ctx context.Context, prefix string) ([]Info, error)
}

// Open opens the store at a URL: file:///srv/packages, or the path of a folder.
func Open(location string) (Store, error) {
	if !strings.Contains(location, "://") {
		return openDir(location)
	}
	u, err := url.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("store %q is not a URL: %w", location, err)
	}
	if u.Scheme != "file" {
		return nil, fmt.Errorf("store %q: scheme %q is not known; use file:///path or the path of a folder", location, u.Scheme)
	}
	if u.Host != "" {
		return nil, fmt.Errorf("store %q names a host; a folder has three slashes: file:///%s%s", location, u.Host, u.Path)
	}
	return openDir(u.Path)
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
