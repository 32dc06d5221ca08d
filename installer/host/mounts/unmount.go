// Package mounts unmounts file systems in a folder, and empties folders without touching mounts in them.
package mounts

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host/files"
)

// Points lists the mount points of this process, sorted. One that is mounted on twice is listed twice.
func Points() ([]string, error) {
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	points := make([]string, 0, len(mounts))
	for _, m := range mounts {
		points = append(points, m.Mountpoint)
	}
	slices.Sort(points)
	return points, nil
}

// Unmount unmounts everything at or below the folders, the deepest mount first, except the folders in keep. A mount that is in
// use is detached: it disappears when its last user ends.
func Unmount(folders, keep []string) error {
	mounts, err := Points()
	if err != nil {
		return err
	}
	slices.Reverse(mounts) // sorted before, so that submounts now come first
	folders = slices.Clone(folders)
	for i, folder := range folders { // the kernel's list has no links in it
		if resolved, err := filepath.EvalSymlinks(folder); err == nil {
			folders[i] = resolved
		}
	}
	var errs []error
	for _, mount := range mounts {
		if !files.IsIn(mount, folders) || slices.Contains(keep, mount) {
			continue
		}
		err := unix.Unmount(mount, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(mount, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", mount, err))
		}
	}
	return errors.Join(errs...)
}
