package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/tail"
)

// unfinished is a file in a folder that is not written to its end.
const unfinished = ".sealift-unfinished"

// tarDiffers is the exit code of GNU tar if files changed while it read them.
// Source: https://www.gnu.org/software/tar/manual/html_section/Synopsis.html
const tarDiffers = 1

// program is the tar of the host: it knows ACLs, extended attributes, holes and what else a file system has.
func program(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "tar", append([]string{"--directory=" + dir, "--numeric-owner", "--acls", "--xattrs", "--xattrs-include=*"}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TAR_OPTIONS=")
	return cmd
}

// Pack writes the content of a folder. It leaves out other file systems below it, and sockets. changed says whether files changed while
// they were read, so that the copy of one may be half old and half new.
func Pack(ctx context.Context, dir string, w io.Writer) (changed bool, err error) {
	cmd := program(ctx, dir, "--create", "--file=-", "--format=posix", "--sparse", "--one-file-system", "--exclude=./"+unfinished, "--anchored", "--exclude=./lost+found", ".")
	var said tail.Buffer
	cmd.Stderr = &said
	from, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("the program tar is needed for volumes: %w", err)
	}
	_, copied := io.Copy(w, from)
	_ = from.Close() // ends tar if w failed
	err = cmd.Wait()
	if copied != nil {
		return false, copied
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == tarDiffers {
		return true, nil
	}
	if err != nil {
		return false, errors.Join(fmt.Errorf("tar of %s: %w: %s", dir, err, said.String()), context.Cause(ctx))
	}
	return false, nil
}

// Lacks says whether a host lacks the content of a folder: it is not there, or empty, or was not written to its end.
func Lacks(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == unfinished }) {
		return true, nil
	}
	return len(without(entries)) == 0, nil
}

// without leaves out what belongs to the file system and not to a volume.
func without(entries []fs.DirEntry) []fs.DirEntry {
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "lost+found" })
}

// Writer writes the content of a folder that the host lacks.
type Writer struct {
	dir  string
	tar  *exec.Cmd
	to   io.WriteCloser
	said tail.Buffer
}

// Write opens a folder that Lacks says the host lacks. What a writer before left unfinished is removed. Until Close, Lacks says so again.
func Write(ctx context.Context, dir string) (*Writer, error) {
	if lacks, err := Lacks(dir); err != nil || !lacks {
		return nil, errors.Join(err, fmt.Errorf("%s has content, which is not replaced", dir))
	}
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := atomicfile.WriteMode(filepath.Join(dir, unfinished), 0o600, nil); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range without(entries) {
		if e.Name() == unfinished {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	w := &Writer{dir: dir, tar: program(ctx, dir, "--extract", "--file=-", "--same-owner", "--preserve-permissions", "--delay-directory-restore")}
	w.tar.Stderr = &w.said
	if w.to, err = w.tar.StdinPipe(); err != nil {
		return nil, err
	}
	return w, w.tar.Start()
}

func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if err != nil {
		err = errors.Join(err, w.end())
	}
	return n, err
}

func (w *Writer) end() error {
	_ = w.to.Close()
	if err := w.tar.Wait(); err != nil {
		return fmt.Errorf("tar into %s: %w: %s", w.dir, err, w.said.String())
	}
	return nil
}

// Discard gives up. The folder stays unfinished.
func (w *Writer) Discard() {
	_ = w.tar.Process.Kill()
	_ = w.end()
}

// Close ends a folder that was written whole, when it is on the disk.
func (w *Writer) Close() error {
	if err := w.end(); err != nil {
		return err
	}
	if err := atomicfile.SyncAll(w.dir); err != nil {
		return err
	}
	folder, err := os.Stat(w.dir)
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(w.dir, unfinished)); err != nil {
		return err
	}
	return errors.Join(os.Chtimes(w.dir, time.Time{}, folder.ModTime()), atomicfile.SyncDir(w.dir))
}
