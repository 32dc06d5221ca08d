package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/store"
)

// DefaultStore is where snapshots are kept unless a store is named. A reset of the node leaves it alone.
const DefaultStore = "/var/backups/sealift"

// storeFolder is where a store has snapshots. The same store may have packages.
const storeFolder = "snapshots"

// stagingDir has the snapshot while it is sent to a server. /tmp may be in memory.
const stagingDir = "/var/tmp"

// Place is a store of snapshots.
type Place struct {
	location string
	folder   string // empty if the store is not a folder
	opener   store.Opener
}

// Kept is a snapshot in a store.
type Kept struct {
	File string `json:"file"`
	Name
	Size int64 `json:"size"` // bytes
}

// At returns the store at a URL: a folder, s3://bucket/prefix, or https://host/path, which is read-only.
func At(location string, opener store.Opener) *Place {
	p := &Place{location: location, opener: opener}
	if folder := store.Folder(location); folder != "" {
		p.folder = filepath.Join(folder, storeFolder)
	}
	return p
}

// Save saves a control plane, and returns the name of the snapshot in the store. It refuses an etcd whose data may differ from the
// cluster's: see Source.Save for such a snapshot. With ErrNotResumed it is saved.
func (p *Place) Save(ctx context.Context, s Source, to ...age.Recipient) (Index, Kept, error) {
	open, err := s.open(ctx)
	if err != nil {
		return Index{}, Kept{}, err
	}
	defer open.Close()
	if err := errors.Join(open.led(), open.source.trust(ctx)); err != nil {
		return Index{}, Kept{}, fmt.Errorf("no snapshot was saved in %s: %w", p.location, err)
	}
	kept := Kept{File: open.index.name().String(), Name: open.index.name()}
	if p.folder != "" {
		kept.Size, err = p.write(ctx, open, filepath.Join(p.folder, kept.File), to)
	} else {
		kept.Size, err = p.send(ctx, open, kept.File, to)
	}
	if err != nil {
		return Index{}, Kept{}, fmt.Errorf("save snapshot %s in %s: %w", kept.File, p.location, err)
	}
	if err := open.source.remember(Last{p.location, kept}); err != nil {
		return Index{}, Kept{}, fmt.Errorf("snapshot %s was saved in %s, but this node cannot remember that: %w", kept.File, p.location, err)
	}
	return open.index, kept, open.resumed()
}

func (p *Place) write(ctx context.Context, open *opened, path string, to []age.Recipient) (size int64, err error) {
	folder, err := files.MakeFolder(p.folder, 0o700)
	if err != nil {
		return 0, err
	}
	defer folder.Close()
	pattern := ".snapshot-" + open.index.Node + ".*" // the same for all saves of this host: each removes leftovers of a killed one
	if err := files.Sweep(p.folder, pattern); err != nil {
		return 0, err
	}
	f, err := folder.Create(pattern)
	if err != nil {
		return 0, err
	}
	defer f.Discard()
	if err := open.write(ctx, f.File, to); err != nil {
		return 0, err
	}
	if size, err = f.Seek(0, io.SeekCurrent); err != nil {
		return 0, err
	}
	return size, f.Commit(filepath.Base(path), 0o600)
}

// send sends a snapshot to a server, which must know its size and digest in advance. The encrypted copy has no name.
func (p *Place) send(ctx context.Context, open *opened, name string, to []age.Recipient) (int64, error) {
	opener := p.opener
	opener.Write = true
	server, err := opener.Open(p.location)
	if err != nil {
		return 0, err
	}
	f, err := nameless()
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := open.write(ctx, f, to); err != nil {
		return 0, err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	value, err := store.Sum(ctx, f, size)
	if err == nil {
		_, err = server.Put(ctx, storeFolder+"/"+name, value)
	}
	return size, err
}

// List returns the snapshots of a store, oldest first. Other files are passed over.
func (p *Place) List(ctx context.Context) ([]Kept, error) {
	if p.folder != "" {
		if _, err := os.Stat(p.folder); errors.Is(err, fs.ErrNotExist) {
			return []Kept{}, nil
		}
	}
	s, err := p.opener.Open(p.location)
	if err != nil {
		return nil, err
	}
	values, err := s.List(ctx, storeFolder+"/")
	if err != nil {
		return nil, err
	}
	all := []Kept{}
	for _, v := range values {
		file := strings.TrimPrefix(v.Key, storeFolder+"/")
		if name, ok := ParseName(file); ok {
			all = append(all, Kept{File: file, Name: name, Size: v.Size})
		}
	}
	slices.SortStableFunc(all, func(a, b Kept) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.File, b.File)) })
	return all, nil
}

// ahead is how far another host's clock may be ahead of this one.
const ahead = 15 * time.Minute

// Future reports whether a snapshot is dated after now: the clock of the host that saved it was wrong, or this host's is.
func (k Kept) Future(now time.Time) bool { return k.Time.Sub(now) > ahead }

// Refused is a refused snapshot, and why.
type Refused struct {
	Kept
	Err error
}

// Newest returns the newest snapshot of the store that check takes, and the newer ones that it refuses. A date that cannot be right is an
// error.
func (p *Place) Newest(ctx context.Context, check func(io.Reader, Kept) error) (newest Kept, refused []Refused, err error) {
	all, err := p.List(ctx)
	if err != nil {
		return Kept{}, nil, err
	}
	if len(all) == 0 {
		return Kept{}, nil, fmt.Errorf("there is no snapshot in %s; name a file, or another store with --store: %w", p.location, fs.ErrNotExist)
	}
	for _, k := range slices.Backward(all) {
		object, err := p.Get(ctx, k)
		if err != nil {
			return Kept{}, refused, err
		}
		from := &source{Reader: object}
		err = check(from, k)
		if failed := errors.Join(from.err, object.Close(), ctx.Err()); failed != nil { // the store's fault, not the snapshot's
			return Kept{}, refused, fmt.Errorf("read %s in %s: %w", k.File, p.location, failed)
		}
		if err != nil {
			refused = append(refused, Refused{k, err})
			continue
		}
		if now := time.Now(); k.Future(now) {
			return Kept{}, refused, fmt.Errorf("the newest snapshot in %s is unknown: %s is dated after this host's clock, %s; set the clock, or name a snapshot of 'sealift snapshot list'",
				p.location, k.File, now.UTC().Format(time.RFC3339))
		}
		return k, refused, nil
	}
	return Kept{}, refused, fmt.Errorf("no snapshot in %s is usable; name a file, or another store with --store: %w", p.location, refused[0].Err)
}

// Open opens a snapshot of the store by its file's name.
func (p *Place) Open(ctx context.Context, file string) (io.ReadCloser, Kept, error) {
	all, err := p.List(ctx)
	if err != nil {
		return nil, Kept{}, err
	}
	at := slices.IndexFunc(all, func(k Kept) bool { return k.File == file })
	if at < 0 {
		return nil, Kept{}, fmt.Errorf("there is no snapshot %s in %s; 'sealift snapshot list' names them: %w", file, p.location, fs.ErrNotExist)
	}
	object, err := p.Get(ctx, all[at])
	return object, all[at], err
}

// Get opens a snapshot that List has returned.
func (p *Place) Get(ctx context.Context, k Kept) (io.ReadCloser, error) {
	s, err := p.opener.Open(p.location)
	if err != nil {
		return nil, err
	}
	object, err := s.Get(ctx, storeFolder+"/"+k.File)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(object, 0, object.Size()), object}, nil
}

// Surplus returns the snapshots that Prune would remove, oldest first. keep is at least one.
func (p *Place) Surplus(ctx context.Context, keep int) ([]Kept, error) {
	if keep < 1 {
		return nil, fmt.Errorf("keep %d snapshots: at least one is kept", keep)
	}
	all, err := p.List(ctx)
	if err != nil {
		return nil, err
	}
	surplus := []Kept{}
	kept := map[Name]int{}
	now := time.Now()
	for _, k := range slices.Backward(all) {
		if k.Time.After(now) { // by seconds, too: else the snapshot that was just saved could be the one that goes
			continue
		}
		from := Name{Cluster: k.Cluster, Node: k.Node}
		if kept[from]++; kept[from] > keep {
			surplus = append(surplus, k)
		}
	}
	slices.Reverse(surplus)
	return surplus, nil
}

// Prune removes all snapshots except the newest of each control plane, and returns the removed ones. keep is at least one. A snapshot
// has volumes only of the node that saved it, so those of other nodes do not replace it. Snapshots that are dated after now stay and are
// not counted: they would push out every snapshot that is saved once the clock is right again.
func (p *Place) Prune(ctx context.Context, keep int) ([]Kept, error) {
	surplus, err := p.Surplus(ctx, keep)
	if err != nil || len(surplus) == 0 {
		return surplus, err
	}
	old := map[string]Kept{}
	for _, k := range surplus {
		old[k.File] = k
	}
	opener := p.opener
	opener.Write = true
	s, err := opener.Open(p.location)
	if err != nil {
		return nil, err
	}
	expirer, ok := store.As[store.Expirer](s)
	if !ok {
		return nil, fmt.Errorf("%s: %w", p.location, store.ErrReadOnly)
	}
	always := time.Now().AddDate(100, 0, 0) // the name has the age; a server's clock may be wrong
	names, err := expirer.Expire(ctx, storeFolder, always, func(name string) bool { _, isOld := old[name]; return isOld })
	removed := []Kept{}
	for _, name := range names {
		removed = append(removed, old[name])
	}
	return removed, err
}
