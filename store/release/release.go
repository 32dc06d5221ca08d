// Package release keeps the packages of one release in a store, and their index.
//
// The index is derived data. Each published package has a record, and the index lists the packages whose stored bytes match
// their record. So any publisher can compute the whole index at any time, several can publish at once, and the next run
// repairs what a killed run left. The package knows names, versions and digests, but not the content of packages.
package release

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/sealift/sealift/store"
)

// Format is the format of the index and of the records.
const Format = "sealift.dev/release/v1"

// Index lists the packages of a release.
type Index struct {
	Format   string    `json:"format"`
	Packages []Package `json:"packages"` // in the order of their keys
}

// Package is one published package.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Key     string `json:"key"` // in addition to the index
	SHA256  string `json:"sha256"`
	Size    int64  `json:"size"`  // bytes
	Digest  string `json:"index"` // sha256 of the package's own index, its identity
	// Stored is the version of the stored value that this row describes; see store.Info.
	Stored string `json:"stored"`
}

// Find returns the package with a name and version.
func (x Index) Find(name, version string) (Package, bool) {
	for _, p := range x.Packages {
		if p.Name == name && p.Version == version {
			return p, true
		}
	}
	return Package{}, false
}

// Release is a folder of a store.
type Release struct {
	store  store.Store
	prefix string // of all keys: empty, or with a slash at its end
}

// recordsDir is the folder with a record for each package.
const recordsDir = ".sealift"

// maxDocument is the maximum size of an index or a record, in bytes: about 200,000 packages.
const maxDocument = 64 << 20

// In returns the release in a folder of a store; "" is the store itself.
func In(s store.Store, folder string) Release {
	if folder = strings.Trim(folder, "/"); folder != "" {
		folder += "/"
	}
	return Release{store: s, prefix: folder}
}

// KURLFolder returns the folder in which kURL keeps a release: dist/<release> or staging/<release>.
func KURLFolder(stage, name string) (string, error) {
	if stage != "dist" && stage != "staging" {
		return "", fmt.Errorf("%q is neither dist nor staging", stage)
	}
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "/\\") {
		return "", fmt.Errorf("release %q cannot be the name of a folder", name)
	}
	return stage + "/" + name, nil
}

// Index reads the index. A release without packages has an empty one.
func (r Release) Index(ctx context.Context) (Index, error) {
	index, _, err := r.read(ctx)
	return index, err
}

func (r Release) indexKey() string { return r.prefix + store.ListingName }

func (r Release) recordKey(key string) string { return r.prefix + path.Join(recordsDir, key+".json") }

// read returns the index and its version in the store. The version is empty without an index.
func (r Release) read(ctx context.Context) (index Index, version string, err error) {
	data, version, err := r.readDocument(ctx, r.indexKey())
	if errors.Is(err, fs.ErrNotExist) {
		return Index{Format: Format}, "", nil
	}
	if err != nil {
		return Index{}, "", err
	}
	if index, err = parseIndex(data); err != nil {
		return Index{}, "", fmt.Errorf("%s: %w", r.indexKey(), err)
	}
	return index, version, nil
}

func parseIndex(data []byte) (Index, error) {
	var index Index
	if err := json.Unmarshal(data, &index); err != nil {
		return Index{}, fmt.Errorf("not the index of a release: %w", err)
	}
	if index.Format != Format {
		return Index{}, fmt.Errorf("format %q is not known; this sealift reads %q", index.Format, Format)
	}
	return index, nil
}

// readDocument reads a small value. If the value is replaced in the meantime, it reads it again.
func (r Release) readDocument(ctx context.Context, key string) (data []byte, version string, err error) {
	for range maxRounds {
		if data, version, err = r.readOnce(ctx, key); !errors.Is(err, store.ErrChanged) {
			break
		}
	}
	return data, version, err
}

func (r Release) readOnce(ctx context.Context, key string) (data []byte, version string, err error) {
	o, err := r.store.Get(ctx, key)
	if err != nil {
		return nil, "", err
	}
	defer o.Close()
	if o.Size() > maxDocument {
		return nil, "", fmt.Errorf("%s has %d bytes, which is too large", key, o.Size())
	}
	data, err = io.ReadAll(io.NewSectionReader(o, 0, o.Size()))
	return data, o.Version(), err
}

// stored lists the packages in the store by key. Keys are relative to the index.
func (r Release) stored(ctx context.Context) (map[string]store.Info, error) {
	infos, err := r.store.List(ctx, r.prefix)
	if err != nil {
		return nil, err
	}
	found := make(map[string]store.Info)
	for _, info := range infos {
		key := strings.TrimPrefix(info.Key, r.prefix)
		if !strings.Contains(key, "/") && strings.HasSuffix(key, ".tar.gz") {
			found[key] = info
		}
	}
	return found, nil
}

// current derives the index from the store. known rows, such as those of the last index, save reading records. A known row
// counts only if it describes the stored bytes.
func (r Release) current(ctx context.Context, stored map[string]store.Info, known []Package) (Index, error) {
	rows := make(map[string]Package)
	for _, p := range known {
		if info, ok := stored[p.Key]; ok && p.is(info) {
			rows[p.Key] = p
		}
	}
	index := Index{Format: Format, Packages: []Package{}}
	for key, info := range stored {
		row, ok := rows[key]
		if !ok {
			var err error
			if row, ok, err = r.record(ctx, key, info); err != nil {
				return Index{}, err
			}
		}
		if ok {
			index.Packages = append(index.Packages, row)
		}
	}
	slices.SortFunc(index.Packages, func(a, b Package) int { return cmp.Compare(a.Key, b.Key) })
	return index, nil
}

// is reports whether a row describes the stored value.
func (p Package) is(info store.Info) bool { return p.Stored == info.Version && p.Size == info.Size }

// record reads the record of a stored package. It returns false while the package is being published, or if another tool
// uploaded it. If the record has the right size but another store version, the store may have been copied: then the bytes
// are hashed and compared.
func (r Release) record(ctx context.Context, key string, info store.Info) (Package, bool, error) {
	data, _, err := r.readDocument(ctx, r.recordKey(key))
	if errors.Is(err, fs.ErrNotExist) {
		return Package{}, false, nil
	}
	if err != nil {
		return Package{}, false, err
	}
	var p Package
	if json.Unmarshal(data, &p) != nil || p.Key != key {
		return Package{}, false, nil //nolint:nilerr // publishing the package again rewrites the record
	}
	if p.is(info) {
		return p, true, nil
	}
	if p.Size != info.Size {
		return Package{}, false, nil
	}
	digest, version, err := r.digest(ctx, key)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrChanged) {
		return Package{}, false, nil
	}
	if err != nil {
		return Package{}, false, fmt.Errorf("compare the package %s with its record: %w", key, err)
	}
	p.Stored = version
	return p, digest == p.SHA256 && p.is(info), nil
}

// digest returns the sha256 of a stored package and its version in the store. It reads the package if the store keeps no
// digest.
func (r Release) digest(ctx context.Context, key string) (digest, version string, err error) {
	o, err := r.store.Get(ctx, r.prefix+key)
	if err != nil {
		return "", "", err
	}
	defer o.Close()
	if digest = o.SHA256(); digest == "" {
		v, err := store.Sum(ctx, o, o.Size())
		if err != nil {
			return "", "", err
		}
		digest = v.SHA256
	}
	return digest, o.Version(), nil
}
