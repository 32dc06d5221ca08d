package bundle

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/parts"
)

func TestBundleInPartsIsRepaired(t *testing.T) {
	f := &factory{T: t, dir: t.TempDir()}
	f.write("tool", []byte("#!/bin/sh\n"))
	f.publish("kubernetes", "1.36.3", 1, 2, 3, 4, 5, 6)
	f.publish("network", "0.26.7", 7, 8, 9, 10)
	installer := f.installer("1.36.3", "0.26.7")
	whole := f.bundle("-f", installer)

	out := filepath.Join(f.dir, "media", "cluster")
	if err := f.try("-f", installer, "--out", out, "--split", "1MB", "--parity", "15%"); err == nil || !strings.Contains(err.Error(), "the smallest is 1MiB") {
		t.Fatal(err)
	}
	if err := f.try("-f", installer, "--out", out, "--split", "1.2MB", "--parity", "15%"); err != nil {
		t.Fatal(err)
	}
	if err := f.try("-f", installer, "--out", out, "--split", "1.2MB"); err == nil || !strings.Contains(err.Error(), "needs a folder of its own") {
		t.Error(err)
	}
	for _, name := range []string{"bin/sealift", "install.sh", "join.sh", "upgrade.sh", "tasks.sh"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
	a, err := bundle.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	set := a.Parts().Set()
	if a.Digest != whole.Digest || a.Size() != whole.size || set.Data != 9 || set.Parity != 2 {
		t.Errorf("got %s with %d bytes in %d and %d parts", a.Digest, a.Size(), set.Data, set.Parity)
	}
	if err := errors.Join(a.Verify(t.Context()), a.Close()); err != nil {
		t.Fatal(err)
	}

	// An interruption is not damage.
	interrupted, interrupt := context.WithCancelCause(t.Context())
	interrupt(errors.New("interrupt signal received"))
	file, err := os.Open(whole.file)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, err := range map[string]error{"parts": completeParts(interrupted, out, true), "one piece": verifyBundle(interrupted, file)} {
		if err == nil || err.Error() != "interrupt signal received" {
			t.Errorf("%s: %v", name, err)
		}
	}

	part := func(n int) string { return filepath.Join(out, parts.Name("cluster", n)) }
	damage(t, part(3))
	if err := os.Remove(part(1)); err != nil { // with the index
		t.Fatal(err)
	}
	if a, err = bundle.Open(part(5)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Verify(t.Context()), a.Close()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(a.Parts().Repaired(), "\n"); !strings.Contains(got, "part 1 is missing: repaired") || !strings.Contains(got, part(3)+") is damaged: 1 of its 9 blocks repaired") {
		t.Error(got)
	}

	// One more, and the archive is refused. The other parts are on another disk.
	second := filepath.Join(f.dir, "second")
	if err := errors.Join(os.Mkdir(second, 0o700), os.Remove(part(9)), os.Rename(part(11), filepath.Join(second, "any-name"))); err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.Open(out); err == nil || !strings.Contains(err.Error(), "parts 1, 9 and 11 are missing") {
		t.Error(err)
	}
	if a, err = bundle.Open(out + ":" + second); err != nil {
		t.Fatal(err)
	}
	err = a.Verify(t.Context())
	lost, ok := errors.AsType[*parts.DamageError](err)
	if !ok || !slices.Equal(lost.Gone, []int{1, 9}) || !slices.Equal(lost.Bad, []int{3}) {
		t.Error(err)
	}
	_ = a.Close()
}

func TestFoldersThatCannotBeReplacedAreRefused(t *testing.T) {
	dir := t.TempDir()
	link, empty := filepath.Join(dir, "link"), filepath.Join(dir, "empty")
	if err := errors.Join(os.Mkdir(empty, 0o700), os.Symlink(empty, link)); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]string{
		"/proc": "/proc is the root of a file system; name a folder on it, such as /proc/parts", "/proc/": "such as /proc/parts", "/": "such as /parts", link: "is a link",
	} {
		if err := replaceable(folder); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", folder, err)
		}
	}
	if err := replaceable(empty); err != nil {
		t.Error(err)
	}
	t.Chdir(empty)
	if err := replaceable("."); err == nil || !strings.Contains(err.Error(), "name a folder in it, such as parts") {
		t.Error(err)
	}
}

// damage flips ten bytes in the middle of a file, within one block.
func damage(t *testing.T, name string) {
	t.Helper()
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		file[128<<10+4000+n] ^= 0xff
	}
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSizesOfPartsAreParsed(t *testing.T) {
	for text, want := range map[string]int64{"4G": 4_000_000_000, "4.7GB": 4_700_000_000, "700M": 700_000_000, "4GiB": 4<<30 - 1, "2Gi": 2 << 30, "1048576": 1 << 20} {
		var size partSize
		if err := size.Set(text); err != nil || int64(size) != want {
			t.Errorf("%s: got %d, %v", text, size, err)
		}
	}
	for _, text := range []string{"", "B", "0", "-4G", "1000000", "4 G", "x", "9E"} {
		var size partSize
		if err := size.Set(text); err == nil {
			t.Errorf("%q: got %d", text, size)
		}
	}
	for text, want := range map[string]int{"10%": 10, "0": 0, "100%": 100} {
		var share percent
		if err := share.Set(text); err != nil || int(share) != want {
			t.Errorf("%s: got %d, %v", text, share, err)
		}
	}
	for _, text := range []string{"", "-1%", "101%", "1.5%", "%"} {
		var share percent
		if err := share.Set(text); err == nil {
			t.Errorf("%q: got %d", text, share)
		}
	}
}
