package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/tail"
)

// unfinished is a file in a folder that is not completely written.
const unfinished = ".sealift-unfinished"

// tarDiffers is the exit code of GNU tar if files changed while it read them.
// Source: https://www.gnu.org/software/tar/manual/html_section/Synopsis.html
const tarDiffers = 1

// program is the tar of the host: it knows ACLs, extended attributes, holes and what else a file system has. It works in an open
// folder, which its owner may have moved in the meantime.
func program(ctx context.Context, folder *os.File, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "tar", append([]string{"--directory=/proc/self/fd/3", "--numeric-owner", "--acls", "--xattrs", "--xattrs-include=*"}, args...)...)
	cmd.ExtraFiles = []*os.File{folder}
	cmd.Env = append(command.Environ(), "TAR_OPTIONS=")
	return cmd
}

// Pack writes the content of a folder. It leaves out other file systems below it, and sockets. changed reports whether files changed while
// they were read, so that the copy of one may be half old and half new.
func Pack(ctx context.Context, dir string, w io.Writer) (changed bool, err error) {
	folder, err := files.OpenFolder(dir)
	if err != nil {
		return false, err
	}
	defer folder.Close()
	self, err := folder.Self()
	if err != nil {
		return false, err
	}
	defer self.Close()
	cmd := program(ctx, self, "--create", "--file=-", "--format=posix", "--sparse", "--one-file-system", "--exclude=./"+unfinished, "--anchored", "--exclude=./lost+found", ".")
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

// IsEmpty reports whether a folder has no complete content: it does not exist, is empty, or was not written to its end.
func IsEmpty(dir string) (bool, error) {
	folder, err := files.OpenFolder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer folder.Close()
	names, err := contentOf(folder)
	return len(names) == 0 || slices.Contains(names, unfinished), err
}

// contentOf lists a folder without what belongs to the file system and not to a volume.
func contentOf(folder *files.Folder) ([]string, error) {
	names, err := folder.Names()
	return slices.DeleteFunc(names, func(name string) bool { return name == "lost+found" }), err
}

// Writer writes the content of a folder that the host lacks.
type Writer struct {
	folder *files.Folder
	self   *os.File // the folder
	tar    *exec.Cmd
	to     io.WriteCloser
	said   tail.Buffer
}

// Write opens a folder for which IsEmpty is true. It removes unfinished files of an earlier writer. Until Close, IsEmpty is true again.
// While it is being written only root can enter the folder: its owner could redirect root with a link.
func Write(ctx context.Context, dir string) (_ *Writer, err error) {
	if lacks, err := IsEmpty(dir); err != nil || !lacks {
		return nil, errors.Join(err, fmt.Errorf("%s has content, which is not replaced", dir))
	}
	w := &Writer{}
	if w.folder, err = files.MakeFolder(dir, 0o700); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.release())
		}
	}()
	if w.self, err = w.folder.Self(); err != nil {
		return nil, err
	}
	if err := w.empty(); err != nil {
		return nil, err
	}
	w.tar = program(ctx, w.self, "--extract", "--file=-", "--same-owner", "--preserve-permissions", "--delay-directory-restore")
	w.tar.Stderr = &w.said
	if w.to, err = w.tar.StdinPipe(); err != nil {
		return nil, err
	}
	return w, w.tar.Start()
}

// empty takes the folder from its owner, and removes the leftovers of an earlier writer.
func (w *Writer) empty() error {
	was, err := w.folder.Stat()
	if err != nil {
		return err
	}
	if err := errors.Join(w.self.Chown(os.Geteuid(), os.Getegid()), w.self.Chmod(0o700)); err != nil {
		return err
	}
	names, err := contentOf(w.folder)
	if err != nil {
		return err
	}
	if len(names) > 0 && !slices.Contains(names, unfinished) { // another one was faster
		uid, gid := files.Owner(was)
		return errors.Join(fmt.Errorf("%s has content, which is not replaced", w.folder.Path()), w.self.Chown(int(uid), int(gid)), w.self.Chmod(was.Mode()))
	}
	if err := w.folder.Fill(unfinished, 0o600, func(*os.File) error { return nil }); err != nil {
		return err
	}
	for _, name := range names {
		if name == unfinished {
			continue
		}
		if err := w.folder.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) release() error {
	if w.self == nil {
		return w.folder.Close()
	}
	return errors.Join(w.self.Close(), w.folder.Close())
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
		return fmt.Errorf("tar into %s: %w: %s", w.folder.Path(), err, w.said.String())
	}
	return nil
}

// Discard discards the volume. The folder stays unfinished.
func (w *Writer) Discard() {
	_ = w.tar.Process.Kill()
	_ = w.end()
	_ = w.release()
}

// Close finishes a completely written folder, when it is on disk.
func (w *Writer) Close() (err error) {
	defer func() { err = errors.Join(err, w.release()) }()
	if err := w.end(); err != nil {
		return err
	}
	if err := unix.Syncfs(int(w.self.Fd())); err != nil {
		return err
	}
	folder, err := w.folder.Stat()
	if err != nil {
		return err
	}
	if err := w.folder.Remove(unfinished); err != nil {
		return err
	}
	return errors.Join(files.SetModified(w.self, folder.ModTime()), w.self.Sync())
}
