package upstream

import (
	"archive/tar"
	"context"
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

	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/testgrid/lab/debian"
)

// epoch is the time of everything in an archive or image, so that the same recipe gives the same bytes.
var epoch = time.Unix(0, 0).UTC()

// Placed is a file of a component and its target: a slash-separated path relative to the root of an archive or image.
type Placed struct {
	From FileOf
	To   string
}

// Tarball packs executables as upstream's releases do.
type Tarball struct {
	File  string // the archive's name
	Files []Placed
}

// Needs implements Recipe.
func (t Tarball) Needs() []string { return componentsOf(t.Files) }

// on implements crossed.
func (t Tarball) on(arch string, id func(string) string) Recipe {
	return Tarball{File: strings.ReplaceAll(t.File, amd64, arch), Files: placedOn(arch, id, t.Files)}
}

// Tools implements Recipe.
func (t Tarball) Tools() []debian.Tool { return nil }

// Make implements Recipe.
func (t Tarball) Make(ctx context.Context, w *Workshop, dir string) error {
	f, err := os.Create(filepath.Join(dir, t.File))
	if err != nil {
		return err
	}
	defer f.Close()
	z := gzip.NewWriter(f)
	archive := tar.NewWriter(z)
	return errors.Join(writeExecutables(ctx, w, archive, t.Files), archive.Close(), z.Close(), f.Close())
}

func componentsOf(files []Placed) []string {
	var list []string
	for _, f := range files {
		if !slices.Contains(list, f.From.Component) {
			list = append(list, f.From.Component)
		}
	}
	return list
}

// writeExecutables writes the files, each folder before its content.
func writeExecutables(ctx context.Context, w *Workshop, t *tar.Writer, files []Placed) error {
	folders := map[string]bool{".": true}
	for _, f := range files {
		if err := writeFolders(t, folders, path.Dir(f.To)); err != nil {
			return err
		}
		source, err := w.File(ctx, f.From)
		if err != nil {
			return err
		}
		info, err := os.Stat(source)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: f.To, Typeflag: tar.TypeReg, Mode: 0o755, Size: info.Size(), ModTime: epoch}
		if err := writeEntry(t, header, source); err != nil {
			return err
		}
	}
	return nil
}

// writeFolders writes the folder and its parents unless they are among those written before.
func writeFolders(t *tar.Writer, written map[string]bool, folder string) error {
	if written[folder] {
		return nil
	}
	if err := writeFolders(t, written, path.Dir(folder)); err != nil {
		return err
	}
	written[folder] = true
	return t.WriteHeader(&tar.Header{Name: folder + "/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: epoch})
}

// writeEntry writes one header, and the bytes of the file at source behind it if it describes a regular file.
func writeEntry(t *tar.Writer, header *tar.Header, source string) error {
	if err := t.WriteHeader(header); err != nil {
		return fmt.Errorf("pack %s: %w", header.Name, err)
	}
	if header.Typeflag != tar.TypeReg {
		return nil
	}
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(t, f); err != nil {
		return fmt.Errorf("pack %s: %w", header.Name, err)
	}
	return nil
}

// writeTree writes everything below root, in the order of names, with owners and modes but without times and device nodes.
func writeTree(t *tar.Writer, root string) error {
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == root {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		var target string
		switch info.Mode().Type() {
		case 0, fs.ModeDir:
		case fs.ModeSymlink:
			if target, err = os.Readlink(name); err != nil {
				return err
			}
		default:
			return nil
		}
		header, err := tar.FileInfoHeader(info, target)
		if err != nil {
			return err
		}
		header.Name = strings.TrimPrefix(filepath.ToSlash(strings.TrimPrefix(name, root)), "/")
		if entry.IsDir() {
			header.Name += "/"
		}
		header.Uname, header.Gname, header.Format = "", "", tar.FormatUnknown
		header.ModTime, header.AccessTime, header.ChangeTime = epoch, time.Time{}, time.Time{}
		return writeEntry(t, header, name)
	})
}
