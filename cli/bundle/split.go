package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/parts"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/atomicfile"
)

// splitFlags say into which parts a bundle is divided.
type splitFlags struct {
	limit  partSize
	parity percent
}

func (s *splitFlags) add(cmd *cobra.Command) {
	cmd.Flags().Var(&s.limit, "split", "write a folder with parts of at most this size, such as 4G (FAT32), 4.7GB or 700M")
	cmd.Flags().Var(&s.parity, "parity", "with --split: add parts that replace lost ones, as a share of the others, such as 10%")
}

func (s *splitFlags) check() error {
	if s.parity > 0 && s.limit == 0 {
		return app.UsageError("--parity adds parts: say with --split how large a part may be")
	}
	return nil
}

// leastPart is the smallest part, in bytes, for which a digest of each block is worth it.
const leastPart = 1 << 20

// partSize is a flag for a number of bytes: 4G is 4,000,000,000, and 4GiB or 4Gi is 4,294,967,296.
type partSize int64

func (p *partSize) Type() string { return "size" }

func (p *partSize) String() string {
	if *p == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*p), 10)
}

func (p *partSize) Set(text string) error {
	q, err := resource.ParseQuantity(strings.TrimSuffix(text, "B"))
	if err != nil || q.Value() < leastPart || q.Value() > 1<<50 {
		return fmt.Errorf("%q is not the size of a part, such as 4G, 4.7GB or 700M; the smallest is 1MiB", text)
	}
	if *p = partSize(q.Value()); *p == 4<<30 {
		*p-- // a file on FAT32 has at most 4 GiB - 1 byte
	}
	return nil
}

// percent is a flag for a whole number of percent.
type percent int

func (p *percent) Type() string   { return "percent" }
func (p *percent) String() string { return strconv.Itoa(int(*p)) + "%" }

func (p *percent) Set(text string) error {
	n, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
	if err != nil || n < 0 || n > 100 {
		return fmt.Errorf("%q is not a share such as 10%%, up to 100%%", text)
	}
	*p = percent(n)
	return nil
}

// writeParts writes the bundle as a folder with parts, the scripts, and the sealift that these start. The folder appears when it is
// complete.
func writeParts(ctx context.Context, plan *assemble.Plan, o bundleOptions) error {
	left, err := os.ReadDir(o.out)
	switch {
	case err == nil && len(left) > 0:
		return fmt.Errorf("%s: a bundle in parts needs a folder of its own, and this one has files; name another with --out", o.out)
	case err == nil:
		err = replaceable(o.out)
	case errors.Is(err, os.ErrNotExist):
		err = nil
	}
	if err != nil {
		return err
	}
	parent, base := filepath.Split(filepath.Clean(o.out))
	if parent == "" {
		parent = "."
	}
	pattern := "." + base + ".*"
	if err := errors.Join(os.MkdirAll(parent, 0o755), atomicfile.Sweep(parent, pattern)); err != nil {
		return err
	}
	folder, err := atomicfile.MkdirTemp(parent, pattern)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Remove() }()
	source, err := plan.Open(ctx)
	if err != nil {
		return err
	}
	_, err = parts.Write(ctx, folder.Path, base, source, plan.Size(), parts.Options{Archive: plan.Digest, Limit: int64(o.split.limit), Parity: int(o.split.parity)})
	if err = errors.Join(err, source.Close()); err != nil {
		return err
	}
	if err := completeParts(ctx, folder.Path, o.verify); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(folder.Path, atomicfile.NewFileMode(0o755)), atomicfile.SyncDir(folder.Path), os.Rename(folder.Path, o.out)); err != nil {
		return err
	}
	return atomicfile.SyncDir(parent)
}

// replaceable returns an error if a finished folder cannot take the place of an empty one: where a disk is mounted, through a link, or in the
// current folder.
func replaceable(folder string) error {
	own, err := os.Stat(folder)
	if err != nil {
		return err
	}
	above, err := os.Stat(folder + "/..") // of what a link leads to
	if err != nil {
		return err
	}
	here, err := os.Stat(".")
	if err != nil {
		return err
	}
	link, err := os.Lstat(filepath.Clean(folder))
	if err != nil {
		return err
	}
	on, _ := own.Sys().(*syscall.Stat_t) // every file of Linux has one
	below, _ := above.Sys().(*syscall.Stat_t)
	inside := filepath.Join(folder, "parts")
	switch {
	case on.Dev != below.Dev || os.SameFile(own, above):
		return fmt.Errorf("%s is the root of a file system; name a folder on it, such as %s", folder, inside)
	case link.Mode()&os.ModeSymlink != 0:
		return fmt.Errorf("%s is a link, which no folder can replace; name a folder in it, such as %s", folder, inside)
	case os.SameFile(own, here):
		return fmt.Errorf("%s is the current folder, which no other can replace; name a folder in it, such as %s", folder, inside)
	}
	return nil
}

// completeParts verifies the archive in parts, and puts beside them what starts an install.
func completeParts(ctx context.Context, folder string, verify bool) (err error) {
	made, err := bundle.Open(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, made.Close()) }()
	if verify {
		if err := made.VerifyHere(ctx); err != nil {
			return unverified(ctx, err)
		}
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	return made.Extract(ctx, root, func(e bundle.Entry) bool {
		return bundle.IsProgram(bundle.BinaryName, e.Path) || slices.Contains(assemble.ScriptNames(), strings.TrimSuffix(e.Path, ".sh"))
	})
}

// describeParts is "5 parts and 1 part of parity of 3.9 GiB".
func describeParts(set parts.Set) string {
	text := app.Counted(set.Data, "part")
	if set.Parity > 0 {
		text += " and " + app.Counted(set.Parity, "part") + " of parity"
	}
	return text + " of " + app.FormatBytes(set.PartSize)
}
