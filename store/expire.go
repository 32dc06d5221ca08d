package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Expirer is a store that can remove old values.
type Expirer interface {
	// Expire removes values directly below folder that were stored before the given time and for whose name old returns true. It
	// returns the removed names. A value that is stored again in the meantime stays; on an S3 server there is a short race.
	Expire(ctx context.Context, folder string, before time.Time, old func(name string) bool) (removed []string, err error)
}

// As returns the first store that is a T: s, or the one that s decorates and returns from Unwrap, and so on.
func As[T any](s Store) (found T, ok bool) {
	for s != nil {
		if found, ok = s.(T); ok {
			return found, true
		}
		decorator, decorates := s.(interface{ Unwrap() Store })
		if !decorates {
			break
		}
		s = decorator.Unwrap()
	}
	return found, false
}

// Expire implements Expirer.
func (d dir) Expire(ctx context.Context, folder string, before time.Time, old func(name string) bool) (removed []string, err error) {
	f, err := d.open()
	if err != nil {
		return nil, err
	}
	defer f.root.Close()
	entries, err := fs.ReadDir(f.root.FS(), folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", d.name, err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.HasPrefix(e.Name(), tempPrefix) || !old(e.Name()) {
			continue
		}
		gone, err := f.expire(ctx, path.Join(folder, e.Name()), before)
		if err != nil {
			return removed, fmt.Errorf("store %s: remove %s: %w", d.name, e.Name(), err)
		}
		if gone {
			removed = append(removed, e.Name())
		}
	}
	return removed, nil
}

// expire removes one old value. A writer holds the same lock only when it begins, so the file's time is checked last.
func (d *folder) expire(ctx context.Context, key string, before time.Time) (gone bool, err error) {
	unlock, err := d.lock(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	info, err := d.root.Stat(key)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.ModTime().Before(before) {
		return false, nil
	}
	if err == nil {
		err = d.root.Remove(key)
	}
	return err == nil, err
}

// Expire implements Expirer.
func (b *bucket) Expire(ctx context.Context, folder string, before time.Time, old func(name string) bool) (removed []string, err error) {
	err = b.list(ctx, folder+"/", func(o types.Object) error {
		name := strings.TrimPrefix(aws.ToString(o.Key), *b.key(folder + "/"))
		if strings.Contains(name, "/") || !aws.ToTime(o.LastModified).Before(before) || !old(name) {
			return nil
		}
		gone, err := b.expire(ctx, folder+"/"+name, before)
		if err != nil {
			return b.fail("remove", folder+"/"+name, err)
		}
		if gone {
			removed = append(removed, name)
		}
		return nil
	})
	return removed, err
}

// expire removes one old value, unless it was stored again after it was listed.
func (b *bucket) expire(ctx context.Context, key string, before time.Time) (gone bool, err error) {
	head, err := b.head(ctx, key)
	if isMissing(err) || err == nil && !aws.ToTime(head.LastModified).Before(before) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	err = b.request(ctx, func(ctx context.Context) error {
		_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.config.Bucket, Key: b.key(key)})
		return err
	})
	return err == nil, err
}
