package release

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/store"
)

// Candidate is a package to publish.
type Candidate struct {
	Name, Version string
	Digest        string // of the package's own index
	Value         store.Value
}

// Status is the outcome of publishing a candidate.
type Status string

// The outcomes.
const (
	Uploaded Status = "uploaded" // its bytes were sent
	Present  Status = "present"  // the release had these bytes already
)

// Result is the outcome for one package.
type Result struct {
	Package
	Status Status `json:"status"`
}

// Publish uploads the packages that the release lacks or has with other bytes, and adds them to its index. If one package
// fails, those before it are published, and the error names the failed one. Several processes may publish at once. The
// index is written at the end and, during long uploads, at most every settleEvery, so that a kill leaves little unlisted.
func (r Release) Publish(ctx context.Context, candidates []Candidate) ([]Result, error) {
	stored, err := r.stored(ctx)
	if err != nil {
		return nil, err
	}
	last, _, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	index, err := r.current(ctx, stored, last.Packages)
	if err != nil {
		return nil, err
	}
	var results []Result
	var own []Package
	var failed error
	settled := time.Now()
	for _, c := range candidates {
		p, status, err := r.put(ctx, c, index, stored)
		if err != nil {
			failed = fmt.Errorf("publish %s %s: %w", c.Name, c.Version, err)
			break
		}
		results, own = append(results, Result{p, status}), append(own, p)
		if time.Since(settled) < settleEvery {
			continue
		}
		if failed = r.settle(ctx, own); failed != nil {
			break
		}
		settled = time.Now()
	}
	if len(own) > 0 {
		failed = errors.Join(failed, r.settle(ctx, own))
	}
	return results, failed
}

// Add uploads one package and its record, unless the release has them. It does not change the index, so that any number of
// processes can add packages at once; Settle lists them.
func (r Release) Add(ctx context.Context, c Candidate) (Package, error) {
	key, err := store.PackageKey(c.Name, c.Version)
	if err != nil {
		return Package{}, err
	}
	infos, err := r.store.List(ctx, r.prefix+key)
	if err != nil {
		return Package{}, err
	}
	stored := make(map[string]store.Info)
	for _, info := range infos {
		stored[strings.TrimPrefix(info.Key, r.prefix)] = info
	}
	p, _, err := r.put(ctx, c, Index{}, stored)
	if err != nil {
		return Package{}, fmt.Errorf("publish %s %s: %w", c.Name, c.Version, err)
	}
	return p, nil
}

// Settle writes the index, with packages that Add has returned. If another publisher has replaced one of them, the error wraps
// store.ErrChanged.
func (r Release) Settle(ctx context.Context, own []Package) error { return r.settle(ctx, own) }

// Stored returns a function that reports whether the store still has the bytes of a package.
func (r Release) Stored(ctx context.Context) (func(Package) bool, error) {
	stored, err := r.stored(ctx)
	return func(p Package) bool {
		info, ok := stored[p.Key]
		return ok && p.is(info)
	}, err
}

// settleEvery is the time between two index writes during uploads. Each write lists the store first.
const settleEvery = 30 * time.Second

// put uploads one package and its record, unless the store has them.
func (r Release) put(ctx context.Context, c Candidate, index Index, stored map[string]store.Info) (Package, Status, error) {
	key, err := store.PackageKey(c.Name, c.Version)
	if err != nil {
		return Package{}, "", err
	}
	p := Package{Name: c.Name, Version: c.Version, Key: key, SHA256: c.Value.SHA256, Size: c.Value.Size, Digest: c.Digest}
	if old, ok := index.Find(c.Name, c.Version); ok && old.SHA256 == p.SHA256 && old.Size == p.Size && old.Digest == p.Digest {
		return old, Present, nil
	}
	status := Uploaded
	if info, ok := stored[key]; ok && info.Size == p.Size { // uploaded without its record: the publisher was killed, or used another tool
		digest, version, err := r.digest(ctx, key)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrChanged) {
			return Package{}, "", err
		}
		if err == nil && digest == p.SHA256 {
			p.Stored, status = version, Present
		}
	}
	if status == Uploaded {
		if p.Stored, err = r.store.Put(ctx, r.prefix+key, c.Value); err != nil {
			return Package{}, "", err
		}
	}
	data, err := marshal(p)
	if err == nil {
		_, err = r.store.Put(ctx, r.recordKey(key), store.Bytes(data))
	}
	return p, status, err
}

// The most times that the index is read and written again because other publishers change it, and the longest pause before
// a retry. With conditional writes, one of all writers succeeds in each round.
const (
	maxRounds = 100
	maxPause  = 500 * time.Millisecond
)

// settle writes the index until it matches the store, checked again after the write. The second check makes it correct on
// servers without conditional writes: the last writer sees all changes.
func (r Release) settle(ctx context.Context, own []Package) error {
	for range maxRounds {
		last, version, err := r.read(ctx)
		if err != nil {
			return err
		}
		stored, err := r.stored(ctx)
		if err != nil {
			return err
		}
		index, err := r.current(ctx, stored, append(last.Packages, own...))
		if err != nil {
			return err
		}
		for _, p := range own {
			if now, _ := index.Find(p.Name, p.Version); now.SHA256 != p.SHA256 {
				return fmt.Errorf("another publish replaced %s in the meantime: %w; decide which of the two you want, and publish it again", p.Key, store.ErrChanged)
			}
		}
		if version != "" && reflect.DeepEqual(index, last) {
			return nil
		}
		data, err := marshal(index)
		if err != nil {
			return err
		}
		if _, err = r.store.Swap(ctx, r.indexKey(), data, version); errors.Is(err, store.ErrChanged) {
			err = poll.Pause(ctx, rand.N(maxPause))
		}
		if err != nil {
			return fmt.Errorf("write the index: %w", err)
		}
	}
	return fmt.Errorf("other publishers changed the index %s %d times during the write; publish again", r.indexKey(), maxRounds)
}

func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return buf.Bytes(), err
}
