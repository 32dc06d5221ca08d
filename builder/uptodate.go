package builder

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/builder/kind"
	"github.com/sealift/sealift/builder/license"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/sha256hex"
)

// input is all that the bytes of a package follow from. What is added to Options and shows in packages belongs here.
type input struct {
	Program     fileState // another sealift may pack in another way
	Name        string
	Version     string
	Platforms   []string
	ImageFormat ImageFormat
	Signer      string // fingerprint of the key, or empty
	Own         []ownFile
	Signatures  string         `json:",omitempty"` // digest of the policy: another one is checked, too
	Licenses    license.Policy // that holds today: with another one, the content is looked at again
	Resolution  kind.Resolution
}

type ownFile struct {
	Path   string
	Mode   fs.FileMode
	SHA256 string
}

// input returns the digest of all that the bytes of a package follow from.
func (b *Builder) input(a *addOn, own []bundle.File, r kind.Resolution) (string, error) {
	in := input{Name: a.name, Version: a.version, Platforms: b.platforms, ImageFormat: b.format, Licenses: b.licenses.Current(time.Now()), Resolution: r}
	var err error
	if in.Signatures, err = b.policy.Digest(); err != nil {
		return "", err
	}
	program, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("inspect this program: %w", err)
	}
	in.Program = stateOf(program)
	if b.key != nil {
		public, err := b.key.Public()
		if err != nil {
			return "", err
		}
		in.Signer = public.Fingerprint()
	}
	for _, f := range own {
		in.Own = append(in.Own, ownFile{f.Path, f.Mode, f.SHA256})
	}
	data, err := json.Marshal(in)
	if err != nil {
		return "", fmt.Errorf("encode the inputs of %s %s: %w", a.name, a.version, err)
	}
	return sha256hex.Of(data), nil
}

// output is the recorded state of a package that was written.
type output struct {
	Input  string    `json:"input"`  // digest of all its inputs
	SHA256 string    `json:"sha256"` // of the package
	File   fileState `json:"file"`
}

const outputs = "outputs"

// fileState is the file system's metadata of a file. While it stays the same the content does: every write changes the change
// time, which cannot be set.
type fileState struct {
	Size    int64  `json:"size"`
	Inode   uint64 `json:"inode"`
	Changed int64  `json:"changed"` // ns since 1970
}

func stateOf(info fs.FileInfo) fileState {
	s := fileState{Size: info.Size()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Inode, s.Changed = sys.Ino, sys.Ctim.Nano()
	}
	return s
}

// upToDate reports whether the package at path is the one that a build of the input would write. A file whose metadata differ
// from those after the build, as after a copy, is read to find out.
func (b *Builder) upToDate(path, input string) (size int64, digest string, ok bool) {
	key, err := filepath.Abs(path)
	if err != nil {
		return 0, "", false
	}
	var known output
	if !b.cache.Recall(outputs, key, &known) || known.Input != input {
		return 0, "", false
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, "", false
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || info.Size() != known.File.Size {
		return 0, "", false
	}
	if stateOf(info) == known.File {
		return known.File.Size, known.SHA256, true
	}
	if digest, _, err := sha256hex.Read(f); err != nil || digest != known.SHA256 {
		return 0, "", false
	}
	if err := b.remember(path, info, known); err != nil {
		b.log.Warn("the next build has to read the package again", "path", path, "error", err)
	}
	return info.Size(), known.SHA256, true
}

// remember records that the file at path is the output of a build, until it changes.
func (b *Builder) remember(path string, written fs.FileInfo, o output) error {
	key, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	info, err := settled(path) // again, because the rename changed it
	if err != nil || info == nil || !os.SameFile(info, written) {
		return err // another build may have put its own there
	}
	o.File = stateOf(info)
	return b.cache.Remember(outputs, key, o)
}

// settled returns the metadata of a file once its clock, which ticks every few milliseconds, has advanced since the last
// change: a change in the same tick would not show. It returns nil if the clock does not advance.
func settled(path string) (fs.FileInfo, error) {
	for range 20 {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
			return nil, err
		}
		if now.Nano() > stateOf(info).Changed {
			// Read again, since a change may have happened in between.
			again, err := os.Stat(path)
			if err != nil || stateOf(again) == stateOf(info) {
				return again, err
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil, nil
}
