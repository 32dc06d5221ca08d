package support

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/diskspace"
)

const (
	podLogs = "/var/log/pods"
	// dockerLogs is docker's folder for the targets of the pods' log links.
	dockerLogs = "/var/lib/docker/containers"
	maxTree    = 200     // collected files of a folder, the newest
	maxLogs    = 1 << 30 // bytes of logs, which are not compressed before all are collected
)

// found is a file of logs.
type found struct {
	folder, path string // below the root, and below the folder
	time         time.Time
}

// newestFirst sorts files.
func newestFirst(all []found) {
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(b.time.Compare(a.time), strings.Compare(a.folder, b.folder), strings.Compare(a.path, b.path))
	})
}

// podLogs collects the logs of containers, which exist when no API server answers.
func (c *collection) podLogs(dir string) {
	root, err := files.OpenRoot(dir)
	if err != nil {
		c.failed(dir, err)
		return
	}
	defer root.Close()
	pods, err := fs.ReadDir(root.FS(), ".")
	c.failed(dir, err)
	var all []found
	for _, pod := range pods {
		if pod.IsDir() {
			all = append(all, c.find(root, pod.Name())...)
		}
	}
	c.newest("pods", root, all)
}

// tree collects the newest files below a folder of the host.
func (c *collection) tree(into, dir string) {
	root, err := files.OpenRoot(dir)
	if err != nil {
		c.failed(dir, err)
		return
	}
	defer root.Close()
	c.newest(into, root, c.find(root, "."))
}

// find lists the newest files of a folder. Pods may write to the folder of logs while this runs, so each file is opened below the
// folder, and the checks are made on the open file.
func (c *collection) find(root *os.Root, name string) (all []found) {
	shown := filepath.Join(root.Name(), name)
	folder, err := root.OpenRoot(name)
	if err != nil {
		c.failed(shown, err)
		return nil
	}
	defer folder.Close()
	err = fs.WalkDir(folder.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if f, info, err := openLog(folder, path); err == nil {
			all = append(all, found{name, path, info.ModTime()})
			return f.Close()
		}
		return nil
	})
	c.failed(shown, err)
	newestFirst(all)
	if older := len(all) - maxTree; older > 0 {
		c.failed(shown, fmt.Errorf("%d older files are left out", older))
		all = all[:maxTree]
	}
	return all
}

// newest collects these files, the newest of all folders first, as long as there is room.
func (c *collection) newest(into string, root *os.Root, all []found) {
	newestFirst(all)
	left := map[string]int{}
	for _, one := range all {
		folder, err := root.OpenRoot(one.folder)
		if err == nil {
			err = c.end(path.Join(into, one.folder, one.path), folder, one.path)
			_ = folder.Close()
		}
		if errors.Is(err, errNoRoom) {
			left[one.folder]++
			continue
		}
		c.failed(filepath.Join(root.Name(), one.folder, one.path), err)
	}
	for _, folder := range slices.Sorted(maps.Keys(left)) {
		c.failed(filepath.Join(root.Name(), folder), fmt.Errorf("%d older files are left out: %w", left[folder], errNoRoom))
	}
}

var errNoRoom = errors.New("the logs of a bundle may take 1 GiB, and a quarter of what the disk has left")

// logRoom is how many bytes of logs a folder has room for.
func logRoom(dir string) (int64, error) {
	space, err := diskspace.Of(dir)
	return int64(min(maxLogs, space.Bytes/4)), err
}

// openLog opens a regular file of a folder. It may be a link, but only to a file of the folder or to a log of docker's.
func openLog(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	const flags = os.O_RDONLY | unix.O_NONBLOCK // a pipe without a writer is not waited for
	f, err := root.OpenFile(name, flags, 0)
	if err != nil {
		target, linkErr := root.Readlink(name)
		below, isDocker := strings.CutPrefix(target, dockerLogs+"/")
		if linkErr != nil || !isDocker {
			return nil, nil, err
		}
		docker, err := files.OpenRoot(dockerLogs)
		if err != nil {
			return nil, nil, err
		}
		defer docker.Close()
		if f, err = docker.OpenFile(below, flags, 0); err != nil {
			return nil, nil, err
		}
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// end collects the end of a file, from the beginning of a line. The kubelet compresses rotated logs.
func (c *collection) end(into string, root *os.Root, name string) error {
	f, _, err := openLog(root, name)
	if err != nil {
		return err
	}
	defer f.Close()
	in, size, packed, err := textOf(f)
	if err != nil {
		return err
	}
	defer in.Close()
	if packed {
		into = unpackedName(into)
	}
	if min(size, maxFile) > c.room {
		return errNoRoom
	}
	c.room -= min(size, maxFile)
	over := size - maxFile
	switch {
	case over <= 0:
		c.put(into, io.LimitReader(in, maxFile))
		return nil
	case packed:
		_, err = io.CopyN(io.Discard, in, over)
	default:
		_, err = f.Seek(over, io.SeekStart)
	}
	if err != nil {
		return err
	}
	c.put(into, io.MultiReader(strings.NewReader(fmt.Sprintf("(the last %d of %d bytes)\n", maxFile, size)), &fromNextLine{Reader: io.LimitReader(in, maxFile)}))
	return nil
}
