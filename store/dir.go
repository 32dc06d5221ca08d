package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// dir is a store in a folder. Files being written begin with tempPrefix and are never listed.
type dir struct {
	root *os.Root
}

const tempPrefix = ".sealift-put-"

func openDir(name string) (Store, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return &dir{root: root}, nil
}

type fileObject struct {
	*os.File
	size int64
}

func (f fileObject) Size() int64 { return f.size }

func (d *dir) Get(_ context.Context, key string) (Object, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	f, err := d.root.Open(key)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", d.root.Name(), err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("store %s: %s is not a file", d.root.Name(), key)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return fileObject{f, info.Size()}, nil
}

func (d *dir) Put(ctx context.Context, key string, value io.Reader) (err error) {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := d.root.MkdirAll(path.Dir(key), 0o755); err != nil {
		return fmt.Errorf("store %s: %w", d.root.Name(), err)
	}
	temp := path.Join(path.Dir(key), tempPrefix+path.Base(key))
	f, err := d.root.Create(temp)
	if err != nil {
		return fmt.Errorf("store %s: %w", d.root.Name(), err)
	}
	defer func() {
		if err != nil {
			_ = d.root.Remove(temp)
		}
	}()
	_, err = io.Copy(f, value)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("store %s: put %s: %w", d.root.Name(), key, err)
	}
	return d.root.Rename(temp, key)
}

func (d *dir) List(ctx context.Context, prefix string) ([]Info, error) {
	var infos []Info
	err := fs.WalkDir(d.root.FS(), ".", func(p string, entry fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if !entry.Type().IsRegular() || !strings.HasPrefix(p, prefix) || strings.HasPrefix(entry.Name(), tempPrefix) {
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			infos = append(infos, Info{Key: p, Size: info.Size()})
		}
		return err
	})
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.Key, b.Key) })
	return infos, err
}
