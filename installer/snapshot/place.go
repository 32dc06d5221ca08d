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

// At returns the place at the URL of a store: a folder, s3://bucket/prefix, or https://host/path, which is read-only.
func At(location string, opener store.Opener) *Place {
	p := &Place{location: location, opener: opener}
	if folder := store.Folder(location); folder != "" {
		p.folder = filepath.Join(folder, storeFolder)
	}
	return p
}

// Save saves a control plane, and returns the name of the snapshot in the store. It refuses an etcd whose data may not be that of the
// cluster: see Source.Save for such a snapshot.
func (p *Place) Save(ctx context.Context, s Source, to ...age.Recipient) (Index, Kept, error) {
	open, err := s.open(ctx)
	if err != nil {
		return Index{}, Kept{}, err
	}
	defer open.Close()
	if err := errors.Join(open.led(), open.source.trust(ctx)); err != nil {
		return Index{}, Kept{}, fmt.Errorf("no snapshot was saved in %s: %w", p.location, err)
	}
	kept := Kept{File: open.name().String(), Name: open.name()}
	if p.folder != "" {
		kept.Size, err = p.write(ctx, open, filepath.Join(p.folder, kept.File), to)
	} else {
		kept.Size, err = p.send(ctx, open, kept.File, to)
	}
	if err != nil {
		return Index{}, Kept{}, fmt.Errorf("save snapshot %s in %s: %w", kept.File, p.location, err)
	}
	return open.index, kept, nil
}

func (p *Place) write(ctx context.Context, open *opened, path string, to []age.Recipient) (size int64, err error) {
	folder, err := files.MakeFolder(p.folder, 0o700)
	if err != nil {
		return 0, err
	}
	defer folder.Close()
	pattern := ".snapshot-" + open.index.Node + ".*" // the same for all saves of this host: each removes what a killed one left
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

// send sends a snapshot to a server, which must be told its size and digest before. The encrypted copy has no name.
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
		if name, ok := parseName(file); ok {
			all = append(all, Kept{File: file, Name: name, Size: v.Size})
		}
	}
	slices.SortStableFunc(all, func(a, b Kept) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.File, b.File)) })
	return all, nil
}

// ahead is how far another host's clock may be ahead of this one.
const ahead = 15 * time.Minute

// Future says whether a snapshot is dated after now: the clock of the host that saved it was wrong, or that of this host is.
func (k Kept) Future(now time.Time) bool { return k.Time.Sub(now) > ahead }

// Open opens a snapshot of the store by its file's name. The name "" is that of the newest, unless its date cannot be right.
func (p *Place) Open(ctx context.Context, file string) (io.ReadCloser, Kept, error) {
	all, err := p.List(ctx)
	if err != nil {
		return nil, Kept{}, err
	}
	at := len(all) - 1
	if file != "" {
		at = slices.IndexFunc(all, func(k Kept) bool { return k.File == file })
	}
	switch now := time.Now(); {
	case at < 0 && file == "":
		return nil, Kept{}, fmt.Errorf("there is no snapshot in %s; name a file, or another store with --store: %w", p.location, fs.ErrNotExist)
	case at < 0:
		return nil, Kept{}, fmt.Errorf("there is no snapshot %s in %s; 'sealift snapshot list' names them: %w", file, p.location, fs.ErrNotExist)
	case file == "" && all[at].Future(now):
		return nil, Kept{}, fmt.Errorf("the newest snapshot in %s cannot be told: %s is dated after this host's clock, %s; set the clock, or name a snapshot of 'sealift snapshot list'",
			p.location, all[at].File, now.UTC().Format(time.RFC3339))
	}
	s, err := p.opener.Open(p.location)
	if err != nil {
		return nil, Kept{}, err
	}
	object, err := s.Get(ctx, storeFolder+"/"+all[at].File)
	if err != nil {
		return nil, Kept{}, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(object, 0, object.Size()), object}, all[at], nil
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
		if k.Future(now) {
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

// Prune removes all snapshots but the newest of each control plane, and returns what it removed. keep is at least one. A snapshot has
// volumes of the node that saved it only, so those of other nodes do not replace it. Snapshots that are dated after now stay and are not
// counted: they would push out every snapshot that is saved once the clock is right again.
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
	expirer, ok := s.(store.Expirer)
	if !ok {
		return nil, fmt.Errorf("%s: %w", p.location, store.ErrReadOnly)
	}
	always := time.Now().AddDate(100, 0, 0) // the name tells the age; a server's clock may be wrong
	names, err := expirer.Expire(ctx, storeFolder, always, func(name string) bool { _, isOld := old[name]; return isOld })
	removed := []Kept{}
	for _, name := range names {
		removed = append(removed, old[name])
	}
	return removed, err
}
