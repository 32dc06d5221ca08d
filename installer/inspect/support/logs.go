package support

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host/files"
)

const (
	podLogs = "/var/log/pods"
	// dockerLogs is docker's folder for the targets of the pods' log links.
	dockerLogs = "/var/lib/docker/containers"
	maxTree    = 200 // collected files of a folder, the newest
)

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
	for _, pod := range pods {
		if !pod.IsDir() {
			continue
		}
		logs, err := root.OpenRoot(pod.Name())
		if err != nil {
			c.failed(filepath.Join(dir, pod.Name()), err)
			continue
		}
		c.newest("pods/"+pod.Name(), logs)
		_ = logs.Close()
	}
}

// tree collects the newest files below a folder of the host.
func (c *collection) tree(into, dir string) {
	root, err := files.OpenRoot(dir)
	if err != nil {
		c.failed(dir, err)
		return
	}
	defer root.Close()
	c.newest(into, root)
}

// newest collects the newest files of an open folder. Pods may write to the folder of logs while this runs, so each file is
// opened below the folder, and the checks are made on the open file.
func (c *collection) newest(into string, root *os.Root) {
	type found struct {
		path string
		time time.Time
	}
	var all []found
	err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if f, info, err := openLog(root, name); err == nil {
			all = append(all, found{name, info.ModTime()})
			return f.Close()
		}
		return nil
	})
	c.failed(root.Name(), err)
	slices.SortFunc(all, func(a, b found) int { return cmp.Or(b.time.Compare(a.time), strings.Compare(a.path, b.path)) })
	for _, one := range all[:min(len(all), maxTree)] {
		c.failed(filepath.Join(root.Name(), one.path), c.end(path.Join(into, one.path), root, one.path))
	}
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
