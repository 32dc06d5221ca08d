package snapshot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"

	"github.com/sealift/sealift/installer/recovery/volume"
	"github.com/sealift/sealift/internal/regularfile"
)

// Finder reads snapshots by their names: files of this host, and those of a store. The name "" is that of the newest snapshot of the store
// that can be trusted.
type Finder struct {
	Place *Place
	// Trust is extended by the cluster that Accept accepts.
	Trust Trust
	// Keys returns what decrypts a snapshot that begins with head. It is called for each snapshot. List needs none.
	Keys func(head []byte) ([]age.Identity, error)
	// Accept reports whether the cluster that signed a snapshot is trusted, on a host that knows no cluster; nil accepts none.
	Accept func(name string, signer *UnknownClusterError) bool
	// Note receives lines about snapshots that were passed over, or that nobody signed; nil for nobody.
	Note func(line string)
}

// Found is a snapshot with its name.
type Found struct {
	File string `json:"file"`
	Index
}

// Loaded is a verified snapshot with its name. Close it.
type Loaded struct {
	File string `json:"file"`
	*Content

	finder *Finder
}

// Index reads the beginning of a snapshot. If the error is ErrUntrusted, the index is what the snapshot claims.
func (f *Finder) Index(ctx context.Context, name string) (Found, error) {
	return f.find(ctx, name, Reader.Index)
}

// Verify reads a whole snapshot.
func (f *Finder) Verify(ctx context.Context, name string) (Found, error) {
	return f.find(ctx, name, Reader.Verify)
}

// Unpack verifies a whole snapshot and writes its files into a new folder.
func (f *Finder) Unpack(ctx context.Context, name, dir string) (Found, error) {
	return f.find(ctx, name, func(r Reader, from io.Reader) (Index, error) { return r.Unpack(from, dir) })
}

// Load verifies a whole snapshot and returns its content.
func (f *Finder) Load(ctx context.Context, name string) (*Loaded, error) {
	loaded := &Loaded{finder: f}
	found, err := f.find(ctx, name, func(r Reader, from io.Reader) (index Index, err error) {
		if loaded.Content, err = r.Load(from); err == nil {
			index = loaded.Content.Index
		}
		return index, err
	})
	loaded.File = found.File
	return loaded, err
}

// Found returns the name and the index.
func (l *Loaded) Found() Found { return Found{l.File, l.Content.Index} }

// ReadVolumes reads the snapshot again, and copies its volumes as Reader.Volumes does.
func (l *Loaded) ReadVolumes(ctx context.Context, create func(name string) (*volume.Writer, error)) error {
	_, err := l.finder.read(ctx, l.File, func(r Reader, from io.Reader) (Index, error) {
		return l.Content.Index, r.Volumes(from, l.Content.Index, create)
	})
	return err
}

// Listed is a snapshot of a store. Its beginning was checked if there were Keys.
type Listed struct {
	Kept
	Signed string `json:"signed,omitempty"`    // hash of the CA of the cluster that signed it
	Why    string `json:"untrusted,omitempty"` // why it is not trusted
}

// List returns the snapshots of the store, oldest first.
func (f *Finder) List(ctx context.Context) ([]Listed, error) {
	all, err := f.Place.List(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Listed, len(all))
	for i, k := range all {
		if list[i].Kept = k; f.Keys == nil {
			continue
		}
		content, err := f.Place.Get(ctx, k)
		if err != nil {
			return nil, err
		}
		index, err := f.decrypt(content, k.File, Reader.Index)
		_ = content.Close()
		switch {
		case err != nil:
			list[i].Why = err.Error()
		case index.Signed():
			list[i].Signed = index.Cluster
		}
	}
	return list, ctx.Err()
}

// readFunc reads a snapshot.
type readFunc func(r Reader, from io.Reader) (Index, error)

// find reads a snapshot by its name. On a host that knows no cluster, Accept decides about the one that signed.
func (f *Finder) find(ctx context.Context, name string, read readFunc) (found Found, err error) {
	if name == "" {
		if name, err = f.newest(ctx); err != nil {
			return Found{}, err
		}
	}
	found, err = f.read(ctx, name, read)
	if err == nil && !found.Signed() {
		f.note(fmt.Sprintf("warning: %s has format %d, without a signature: anybody with the public key can have made it", name, found.Format))
	}
	var signer *UnknownClusterError
	if !f.acceptable(err, &signer) || !f.Accept(name, signer) {
		return found, err
	}
	f.Trust.Clusters = []string{signer.Cluster}
	return f.read(ctx, name, read)
}

// acceptable reports whether Accept can decide about the cluster that signed.
func (f *Finder) acceptable(err error, signer **UnknownClusterError) bool {
	return f.Accept != nil && errors.As(err, signer) && len((*signer).Trusted) == 0
}

// namedRefusals is how many snapshots that are passed over are named.
const namedRefusals = 20

// newest returns the name of the newest snapshot of the store that can be trusted.
func (f *Finder) newest(ctx context.Context) (string, error) {
	newest, refused, err := f.Place.Newest(ctx, func(from io.Reader, k Kept) error {
		_, err := f.decrypt(from, k.File, Reader.Index)
		var signer *UnknownClusterError
		if f.acceptable(err, &signer) {
			return nil // find asks
		}
		return err
	})
	for i, r := range refused {
		if i == namedRefusals {
			f.note(fmt.Sprintf("and %d more were passed over", len(refused)-i))
			break
		}
		f.note(fmt.Sprintf("passed over %v", r.Err))
	}
	return newest.File, err
}

func (f *Finder) note(line string) {
	if f.Note != nil {
		f.Note(line)
	}
}

// read reads a snapshot by its name.
func (f *Finder) read(ctx context.Context, name string, read readFunc) (Found, error) {
	content, err := f.open(ctx, name)
	if err != nil {
		return Found{}, err
	}
	index, err := f.decrypt(content, name, read)
	return Found{name, index}, errors.Join(err, content.Close())
}

// open opens a snapshot: a file of this host, or one of the store.
func (f *Finder) open(ctx context.Context, name string) (content io.ReadCloser, err error) {
	if _, missing := os.Stat(name); missing == nil || strings.ContainsRune(name, filepath.Separator) {
		if content, err = regularfile.Open(name); errors.Is(err, regularfile.ErrNot) {
			err = fmt.Errorf("%s is not a snapshot: %w", name, err)
		}
		return content, err
	}
	content, _, err = f.Place.Open(ctx, name)
	return content, err
}

// decrypt reads what may be a snapshot, called name. A name of the store's kind has to be that of the index.
func (f *Finder) decrypt(from io.Reader, name string, read readFunc) (Index, error) {
	buffered := bufio.NewReaderSize(from, 1<<16)
	head, err := buffered.Peek(HeadSize)
	if err != nil {
		return Index{}, fmt.Errorf("%s is not a snapshot: %w", name, err)
	}
	if !IsEncrypted(head) {
		return Index{}, fmt.Errorf("%s is not a snapshot: 'sealift snapshot save' makes files that are encrypted by age", name)
	}
	r := Reader{Trust: f.Trust}
	if r.Keys, err = f.Keys(head); err != nil {
		return Index{}, err
	}
	r.Name, _ = ParseName(filepath.Base(name))
	index, err := read(r, buffered)
	if err != nil {
		return index, fmt.Errorf("%s: %w", name, err)
	}
	return index, nil
}
