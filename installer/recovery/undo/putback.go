package undo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

// PutBack writes the files of the host again, or those of Sealift's own state, where they differ, and returns their paths. Files of
// the state, and those of Kubernetes on the host, that are new since are removed. It may be repeated.
//
// The program itself is restored with the state, at the end: an undo that was killed is resumed by the program that began it.
func (s Store) PutBack(set Set, own bool) (changed []string, err error) {
	write := func(wanted func(File) bool) error {
		for n, f := range set.Files {
			if !wanted(f) {
				continue
			}
			wrote, err := s.putBack(set, n)
			if err != nil {
				return err
			}
			if wrote {
				changed = append(changed, f.Path)
			}
		}
		return nil
	}
	isProgram := func(f File) bool { return f.Path == node.Binary }
	if err := write(func(f File) bool { return f.Own == own && !isProgram(f) }); err != nil {
		return changed, err
	}
	now, err := s.find()
	if err != nil {
		return changed, err
	}
	for _, f := range now {
		if f.Own != own || !own && !isKubernetesPath(f.Path) || slices.ContainsFunc(set.Files, func(was File) bool { return was.Path == f.Path }) {
			continue
		}
		if link, err := linkOf(s.onDisk(f)); err != nil {
			return changed, err
		} else if link != "" && !set.Links {
			continue
		}
		if err := files.Remove(s.onDisk(f)); err != nil {
			return changed, err
		}
		changed = append(changed, f.Path)
	}
	if own {
		err = write(isProgram)
	}
	return changed, err
}

// putBack restores a file of a set, by its number, if it has changed.
func (s Store) putBack(set Set, n int) (wrote bool, err error) {
	f := set.Files[n]
	to := s.onDisk(f)
	if same, err := s.same(f, to); err != nil || same {
		return false, err
	}
	if to, err = f.link(to); err != nil {
		return false, fmt.Errorf("restore %s: %w", f.Path, err)
	}
	if err := files.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return false, err
	}
	if err := files.Fill(to, f.Mode, func(w *os.File) error { return set.check(n, f, w) }); err != nil {
		return false, fmt.Errorf("restore %s: %w", f.Path, err)
	}
	return true, nil
}

// same reports whether a file is unchanged.
func (s Store) same(f File, name string) (bool, error) {
	src, err := regularfile.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil || info.Size() != f.Size || info.Mode().Perm() != f.Mode {
		return false, err
	}
	if link, err := linkOf(name); err != nil || link != f.Link {
		return false, err
	}
	digest, _, err := sha256hex.Read(src)
	return digest == f.SHA256, err
}
