package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sealift/sealift/internal/filelock"
	"github.com/sealift/sealift/internal/regularfile"
)

// dir is a store in a folder. Each operation opens the folder again, so that a replaced or remounted folder is found and an
// idle server does not keep a disk busy.
type dir struct {
	name  string
	swept *sync.Map // names of the folders that this process has swept
}

// folder is an open store folder for one operation. Files that are being written begin with tempPrefix and are never
// listed.
type folder struct {
	root  *os.Root
	swept *sync.Map
}

const tempPrefix = ".sealift-put-"

// lockName is the file to lock while Swap compares and replaces, and while a temporary file is created.
const lockName = ".sealift-put-lock"

func openDir(name string) (Store, error) {
	d := dir{name, new(sync.Map)}
	f, err := d.open()
	if err != nil {
		return nil, err
	}
	return d, f.root.Close()
}

// open opens the current folder. A missing folder is not an fs.ErrNotExist, because that would mean a missing value.
func (d dir) open() (*folder, error) {
	root, err := os.OpenRoot(d.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("store: folder %s does not exist; create or mount it first", d.name)
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return &folder{root, d.swept}, nil
}

func (d dir) Get(_ context.Context, key string) (Object, error) {
	f, err := d.open()
	if err != nil {
		return nil, err
	}
	defer f.root.Close()
	return f.get(key)
}

func (d dir) Put(ctx context.Context, key string, value Value) (version string, err error) {
	f, err := d.open()
	if err != nil {
		return "", err
	}
	defer f.root.Close()
	return f.put(ctx, key, value)
}

func (d dir) Swap(ctx context.Context, key string, data []byte, old string) (version string, err error) {
	f, err := d.open()
	if err != nil {
		return "", err
	}
	defer f.root.Close()
	return f.swap(ctx, key, data, old)
}

func (d dir) List(ctx context.Context, prefix string) ([]Info, error) {
	f, err := d.open()
	if err != nil {
		return nil, err
	}
	defer f.root.Close()
	return f.list(ctx, prefix)
}

func (d *folder) get(key string) (Object, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	f, err := regularfile.OpenIn(d.root, key)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", d.root.Name(), err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return newFileObject(f, info), nil
}

func (d *folder) put(ctx context.Context, key string, value Value) (version string, err error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return "", err
	}
	f, err := d.create(key)
	if err = errors.Join(err, unlock()); err != nil {
		return "", fmt.Errorf("store %s: put %s: %w", d.root.Name(), key, err)
	}
	if version, err = d.fill(ctx, f, key, value); err != nil {
		return "", fmt.Errorf("store %s: put %s: %w", d.root.Name(), key, err)
	}
	return version, nil
}

// temporary is a file that is being written. Its writer holds a lock on it, which the kernel releases however the writer
// ends.
type temporary struct {
	*os.File
	name string
}

// temporaryName matches the names that create makes: from the key, the process id and the time.
var temporaryName = regexp.MustCompile(`^` + regexp.QuoteMeta(tempPrefix) + `.+\.[0-9]+\.[0-9a-f]+$`)

// create makes a temporary file for a key. The caller holds the store's lock, because a file that is not locked yet looks
// abandoned.
func (d *folder) create(key string) (*temporary, error) {
	folder := path.Dir(key)
	if err := d.root.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	if err := d.sweep(folder); err != nil {
		return nil, fmt.Errorf("remove what an interrupted run left: %w", err)
	}
	// Each writer has its own name, because two may put the same key at once.
	name := path.Join(folder, fmt.Sprintf("%s%s.%d.%x", tempPrefix, path.Base(key), os.Getpid(), time.Now().UnixNano()))
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	if err := filelock.Lock(f); err != nil {
		return nil, errors.Join(err, f.Close(), d.root.Remove(name))
	}
	return &temporary{f, name}, nil
}

// sweep removes what killed writers left in a folder. A process sweeps each folder once: a sweep for each of n values would
// take quadratic time.
func (d *folder) sweep(folder string) error {
	if _, done := d.swept.LoadOrStore(folder, true); done {
		return nil
	}
	entries, err := fs.ReadDir(d.root.FS(), folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !temporaryName.MatchString(e.Name()) {
			continue
		}
		if err := d.removeAbandoned(path.Join(folder, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (d *folder) removeAbandoned(name string) error {
	f, err := regularfile.OpenIn(d.root, name)
	if errors.Is(err, regularfile.ErrNot) {
		return nil // not a file of create
	}
	if err != nil {
		return err
	}
	defer f.Close()
	err = filelock.TryLock(f)
	if errors.Is(err, filelock.ErrLocked) {
		return nil
	}
	return errors.Join(err, d.root.Remove(name))
}

// fill writes a value and renames the file to its key.
func (d *folder) fill(ctx context.Context, f *temporary, key string, value Value) (version string, err error) {
	defer func() {
		if err != nil {
			_ = d.root.Remove(f.name)
		}
	}()
	err = copyVerified(ctx, f, value)
	if err == nil {
		err = f.Sync()
	}
	info, statErr := f.Stat()
	if err = errors.Join(err, statErr); err == nil {
		err = d.root.Rename(f.name, key) // before closing, which releases the lock and makes it look abandoned
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	return fileVersion(info), d.syncFolder(path.Dir(key))
}

// syncFolder syncs a folder, so that new names in it survive a power failure.
func (d *folder) syncFolder(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// copyChunk is the number of bytes copied between two checks of the context.
const copyChunk = 1 << 20

func copyVerified(ctx context.Context, to io.Writer, value Value) error {
	sum := sha256.New()
	for off := int64(0); off < value.Size; off += copyChunk {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		want := min(copyChunk, value.Size-off)
		n, err := io.Copy(io.MultiWriter(to, sum), io.NewSectionReader(value.Content, off, want))
		if err = errors.Join(err, shortOf(n, want)); err != nil {
			return err
		}
		value.meter(n, 0)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != value.SHA256 {
		return fmt.Errorf("the content changed while it was copied: sha256 is %s, was %s", got, value.SHA256)
	}
	return nil
}

func (d *folder) swap(ctx context.Context, key string, data []byte, old string) (version string, err error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	current := ""
	info, err := d.root.Stat(key)
	switch {
	case err == nil:
		current = fileVersion(info)
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("store %s: %w", d.root.Name(), err)
	}
	if current != old {
		return "", fmt.Errorf("store %s: %s: %w", d.root.Name(), key, ErrChanged)
	}
	f, err := d.create(key)
	if err == nil {
		version, err = d.fill(ctx, f, key, Bytes(data))
	}
	if err != nil {
		return "", fmt.Errorf("store %s: put %s: %w", d.root.Name(), key, err)
	}
	return version, nil
}

// lock locks the store against other writers on this machine, and on other machines if the file system shares locks.
func (d *folder) lock(ctx context.Context) (unlock func() error, err error) {
	f, err := d.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", d.root.Name(), err)
	}
	if err := filelock.Wait(ctx, f); err != nil {
		return nil, errors.Join(fmt.Errorf("store %s: lock: %w", d.root.Name(), err), f.Close())
	}
	return f.Close, nil // closing releases the lock
}

// recovered is the folder for fsck at the root of a file system, which only root can read. A store may be such a root. Of other folders that
// cannot be read the values would be missing, so they fail.
const recovered = "lost+found"

func (d *folder) list(ctx context.Context, prefix string) ([]Info, error) {
	var infos []Info
	err := fs.WalkDir(d.root.FS(), ".", func(p string, entry fs.DirEntry, err error) error {
		if p == recovered && errors.Is(err, fs.ErrPermission) {
			return fs.SkipDir
		}
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if entry.IsDir() && p != "." && !strings.HasPrefix(p, prefix) && !strings.HasPrefix(prefix, p+"/") {
			return fs.SkipDir // such as the many Installers of a server, which are never listed
		}
		if !entry.Type().IsRegular() || !strings.HasPrefix(p, prefix) || strings.HasPrefix(entry.Name(), tempPrefix) {
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			infos = append(infos, Info{Key: p, Size: info.Size(), Version: fileVersion(info)})
		}
		return err
	})
	slices.SortFunc(infos, byKey)
	return infos, err
}

func byKey(a, b Info) int { return cmp.Compare(a.Key, b.Key) }
