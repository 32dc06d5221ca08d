// Package release keeps the packages of one release in a store, and their index.
//
// The index is derived: for each package that was published there is a record, and the index tells of those packages whose
// bytes are those of their record. So whoever publishes can compute all of it at any time, several may do so at once, and what
// one of them was killed over, the next puts right. Packages are known here by name, version and digest; what is in them is
// of no concern.
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

// Format names the layout of the index and of the records.
const Format = "sealift.dev/release/v1"

// Index tells which packages a release has.
type Index struct {
	Format   string    `json:"format"`
	Packages []Package `json:"packages"` // in the order of their keys
}

// Package is one published package.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Key     string `json:"key"` // beside the index
	SHA256  string `json:"sha256"`
	Size    int64  `json:"size"`  // bytes
	Digest  string `json:"index"` // sha256 of the package's own index, its identity
	// Stored is the version of the stored value that these words are about; see store.Info.
	Stored string `json:"stored"`
}

// Find gives the package of a name and version.
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

// maxDocument bounds what is read of an index or a record: about 200,000 packages.
const maxDocument = 64 << 20

// In returns the release in a folder of a store; "" is the store itself.
func In(s store.Store, folder string) Release {
	if folder = strings.Trim(folder, "/"); folder != "" {
		folder += "/"
	}
	return Release{store: s, prefix: folder}
}

// KURLFolder is the folder in which kURL has a release: dist/<release> or staging/<release>.
func KURLFolder(stage, name string) (string, error) {
	if stage != "dist" && stage != "staging" {
		return "", fmt.Errorf("%q is neither dist nor staging", stage)
	}
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "/\\") {
		return "", fmt.Errorf("release %q is not usable as the name of a folder", name)
	}
	return stage + "/" + name, nil
}

// Index reads the index; that of a release without packages is empty.
func (r Release) Index(ctx context.Context) (Index, error) {
	index, _, err := r.read(ctx)
	return index, err
}

func (r Release) indexKey() string { return r.prefix + store.ListingName }

func (r Release) recordKey(key string) string { return r.prefix + path.Join(recordsDir, key+".json") }

// read gives the index and the version that it has in the store, empty when there is none.
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

// readDocument reads a small value, again if it is replaced while it is read.
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
		return nil, "", fmt.Errorf("%s has %d bytes, too many", key, o.Size())
	}
	data, err = io.ReadAll(io.NewSectionReader(o, 0, o.Size()))
	return data, o.Version(), err
}

// stored lists the packages in the store, by their keys beside the index.
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

// current derives the index from what the store has. Known rows, such as those of the last index, save reading records; a row
// that is about other bytes than the stored ones does not count.
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

// is says whether a row is about the value that is stored.
func (p Package) is(info store.Info) bool { return p.Stored == info.Version && p.Size == info.Size }

// record reads the record of a stored package. There is none while the package is being published, or when it came there by
// other means. Where the record is of the same size but about another version in the store, the whole may have been copied
// from another store: then the bytes decide.
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
		return Package{}, false, nil //nolint:nilerr // publishing the package again writes it anew
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

// digest gives the sha256 of a stored package, if need be by reading it, and the version in the store that has it.
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
