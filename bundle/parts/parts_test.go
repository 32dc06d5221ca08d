package parts

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/reedsolomon"

	"github.com/sealift/sealift/internal/sha256hex"
)

// archive is size bytes, the same for the same seed.
func archive(size int, seed byte) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
	return data
}

// split writes data as parts into a new folder.
func split(t testing.TB, data []byte, limit int64, parity int) (folder string, set Set) {
	t.Helper()
	folder = t.TempDir()
	set, err := Write(t.Context(), folder, "x", bytes.NewReader(data), int64(len(data)), Options{Archive: sha256hex.Of(data), Limit: limit, Parity: parity})
	if err != nil {
		t.Fatal(err)
	}
	for n := range set.total() {
		if info, err := os.Stat(filepath.Join(folder, Name("x", n+1))); err != nil || info.Size() > limit {
			t.Fatal(n, info.Size(), limit, err)
		}
	}
	return folder, set
}

// flip changes a byte of a part. at counts from its first block.
func flip(t testing.TB, folder string, set Set, part int, at int64) {
	t.Helper()
	header, err := headSize(set, part)
	if err != nil {
		t.Fatal(err)
	}
	flipFile(t, filepath.Join(folder, Name("x", part+1)), header+at)
}

func flipFile(t testing.TB, name string, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	one := make([]byte, 1)
	if _, err := f.ReadAt(one, at); err != nil {
		t.Fatal(err)
	}
	one[0] ^= 0x40
	if _, err := f.WriteAt(one, at); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, names ...string) ([]byte, *Reader, error) {
	t.Helper()
	r, err := Open(names...)
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(func() { _ = r.Close() })
	data, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	return data, r, err
}

// TestAnyPartsAreEnough loses as much as the parity replaces, at random, and then one block more.
func TestAnyPartsAreEnough(t *testing.T) {
	for seed := range byte(12) {
		random := rand.New(rand.NewChaCha8([32]byte{seed}))
		size := 1 + random.IntN(4<<20)
		parity := []int{0, 5, 15, 40, 100}[random.IntN(5)]
		data := archive(size, seed)
		folder, set := split(t, data, int64(300<<10+random.IntN(1<<20)), parity)

		gone := random.Perm(set.total())[:random.IntN(set.Parity+1)]
		for _, part := range gone {
			if err := os.Remove(filepath.Join(folder, Name("x", part+1))); err != nil {
				t.Fatal(err)
			}
		}
		left := slices.DeleteFunc(random.Perm(set.total()), func(part int) bool { return slices.Contains(gone, part) })
		for row := range set.blocksOf(0) { // other parts in each row
			for n := range set.Parity - len(gone) {
				part := left[(int(row)+n)%len(left)]
				if length := set.blockLength(part, row); length > 0 {
					flip(t, folder, set, part, row*set.Block+random.Int64N(length))
				}
			}
		}
		got, r, err := read(t, folder)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("seed %d: %d bytes, %d + %d parts, without %v: %v", seed, size, set.Data, set.Parity, gone, err)
		}
		report, err := r.check(t.Context())
		if err != nil || !report.Repairable || report.Worst > set.Parity || len(report.State) != set.total() {
			t.Errorf("seed %d: %+v, %v", seed, report, err)
		}
		spoil(t, folder, set, left)
		_, r, err = read(t, folder)
		damage, ok := errors.AsType[*DamageError](err)
		if !ok || damage.At/set.Block%max(1, set.PartSize/set.Block) != 0 {
			t.Fatalf("seed %d: one more block: %v", seed, err)
		}
		if report, err := r.check(t.Context()); err != nil || report.Repairable || report.Lost != 1 {
			t.Errorf("seed %d: one more block: %+v, %v", seed, report, err)
		}
	}
}

// spoil damages one block of the first row too much: all of a data part's row that is left, as far as needed.
func spoil(t *testing.T, folder string, set Set, left []int) {
	t.Helper()
	r, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	lost := len(r.Missing())
	for _, part := range left {
		if r.read(place{part, 0}) == nil {
			lost++
		}
	}
	for _, part := range left { // data parts, so that the archive lacks something
		if lost <= set.Parity && part < set.Data && r.read(place{part, 0}) != nil {
			flip(t, folder, set, part, 0)
			lost++
		}
	}
	for _, part := range left {
		if lost <= set.Parity && part >= set.Data && r.read(place{part, 0}) != nil {
			flip(t, folder, set, part, 0)
			lost++
		}
	}
	for part := range set.Data { // data is lost, not only parity
		if r.files[part] == nil || r.read(place{part, 0}) == nil {
			return
		}
	}
	t.Fatal("all data is there")
}

func TestTooFewPartsAreNamed(t *testing.T) {
	data := archive(2<<20, 1)
	folder, set := split(t, data, 140<<10, 15)
	if set.Data != 16 || set.Parity != 3 {
		t.Fatal(set)
	}
	for _, part := range []int{2, 5, 6, 7} {
		if err := os.Remove(filepath.Join(folder, Name("x", part))); err != nil {
			t.Fatal(err)
		}
	}
	other, _ := split(t, archive(2<<20, 2), 140<<10, 15)
	swapped, err := os.ReadFile(filepath.Join(other, Name("x", 5)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, Name("x", 5)), swapped, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(folder)
	missing, ok := errors.AsType[*MissingError](err)
	if !ok || !slices.Equal(missing.Missing, []int{2, 5, 6, 7}) || !slices.Equal(missing.Looked, []string{folder}) {
		t.Fatal(err)
	}
	for _, want := range []string{"16 of the 19 parts", "15 were found", "parts 2 and 5 to 7 are missing", Name("x", 5) + " is part 5 of another set"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

// TestPartsLieOnSeveralDisks reads parts in any order from several folders, under other names.
func TestPartsLieOnSeveralDisks(t *testing.T) {
	data := archive(1<<20, 3)
	first, set := split(t, data, 300<<10, 0)
	second := t.TempDir()
	for _, part := range []int{1, 3} {
		if err := os.Rename(filepath.Join(first, Name("x", part)), filepath.Join(second, "disk-"+string(rune('0'+set.Data-part)))); err != nil {
			t.Fatal(err)
		}
	}
	for _, names := range [][]string{{first, second}, {second, first}, {filepath.Join(first, Name("x", 2)), second}} {
		if got, r, err := read(t, names...); err != nil || !bytes.Equal(got, data) || len(r.Repaired()) > 0 {
			t.Errorf("%v: %v", names, err)
		}
	}
	if _, err := Open(first); err == nil {
		t.Error("two parts are on the other disk")
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

func TestSeveralArchivesInOneFolder(t *testing.T) {
	data := archive(1<<20, 4)
	folder, set := split(t, data, 300<<10, 0)
	other, _ := split(t, archive(1<<20, 5), 300<<10, 0)
	for part := range set.total() {
		if err := os.Rename(filepath.Join(other, Name("x", part+1)), filepath.Join(folder, Name("y", part+1))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(folder); err == nil || !strings.Contains(err.Error(), "has 2 archives in parts; name a part of the one that is meant: ") {
		t.Error(err)
	}
	if got, _, err := read(t, filepath.Join(folder, Name("x", 3))); err != nil || !bytes.Equal(got, data) {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(folder, Name("y", 2))); err != nil {
		t.Fatal(err)
	}
	got, r, err := read(t, folder)
	if err != nil || !bytes.Equal(got, data) || !strings.Contains(strings.Join(r.Repaired(), "\n"), Name("y", 3)+" is part 3 of another set") {
		t.Error(err)
	}
}

func TestScratchedDescriptionIsReadFromItsCopy(t *testing.T) {
	data := archive(1<<20, 6)
	folder, set := split(t, data, 300<<10, 20)
	name := filepath.Join(folder, Name("x", 2))
	header, err := headSize(set, 1)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int64]string{3: ": its description is damaged", 30: ": its description is damaged", header - 50: ": its description is damaged"} {
		flipFile(t, name, at)
		got, r, err := read(t, folder)
		if err != nil || !bytes.Equal(got, data) || !strings.Contains(strings.Join(r.Repaired(), "\n"), "part 2 ("+name+")"+want) {
			t.Errorf("byte %d: %v", at, err)
		}
		flipFile(t, name, at)
	}
	flipFile(t, name, header-1) // the length after the digest
	if got, r, err := read(t, folder); err != nil || !bytes.Equal(got, data) || !strings.Contains(strings.Join(r.Repaired(), "\n"), "its description is damaged") {
		t.Error(err)
	}
	flipFile(t, name, header-1)
	flipFile(t, name, header+set.PartSize+100)
	if got, r, err := read(t, folder); err != nil || !bytes.Equal(got, data) || !strings.Contains(strings.Join(r.Repaired(), "\n"), "at its end is damaged") {
		t.Error(err)
	}
	flipFile(t, name, 100) // both: the part is lost
	if got, r, err := read(t, folder); err != nil || !bytes.Equal(got, data) || !slices.Equal(r.Missing(), []int{2}) {
		t.Error(err)
	}
	if err := os.Truncate(filepath.Join(folder, Name("x", 3)), header+set.PartSize/2); err != nil { // one block of two is left
		t.Fatal(err)
	}
	if _, _, err := read(t, folder); err == nil {
		t.Error("two parts are lost, and there is parity for one")
	}
}

// TestForgedSizeIsRefused describes an archive of 512 TiB in a file of a few hundred bytes.
func TestForgedSizeIsRefused(t *testing.T) {
	table := sha256.Sum256([]byte("x"))
	set := Set{Format: Format, Archive: sha256hex.Of(""), Size: 1<<49 + 1, Block: 512, PartSize: 1 << 49, Data: 2, Parts: []string{sha256hex.Of(""), sha256hex.Of(string(table[:]))}}
	text, err := head{set: set, number: 1, table: table[:]}.encode()
	if err != nil {
		t.Fatal(err)
	}
	part := slices.Concat(text, []byte("x"), text)
	if _, err := readHead(bytes.NewReader(part), int64(len(part))); err == nil || !strings.Contains(err.Error(), "too many to describe") {
		t.Error(err)
	}
}

func TestPlansKeepLimits(t *testing.T) {
	for name, row := range map[string]struct {
		size, limit int64
		parity      int
		data, parts int
		refused     bool
	}{
		"FAT32":          {size: 20_000_000_000, limit: 4<<30 - 1, parity: 10, data: 5, parts: 6},
		"DVD":            {size: 20_000_000_000, limit: 4_700_000_000, parity: 0, data: 5, parts: 5},
		"CD":             {size: 20_000_000_000, limit: 700_000_000, parity: 15, data: 29, parts: 34},
		"one part":       {size: 1000, limit: 1 << 20, parity: 15, data: 1, parts: 2},
		"just too large": {size: 1 << 20, limit: 1 << 20, parity: 0, data: 2, parts: 2},
		"the most parts": {size: 256 * blockSize, limit: 168 << 10, parity: 0, data: 256, parts: 256},
		"too many parts": {size: 257 * blockSize, limit: 168 << 10, parity: 0, refused: true},
		"and parity":     {size: 256 * blockSize, limit: 168 << 10, parity: 1, refused: true},
		"no room":        {size: 1 << 20, limit: 100, parity: 0, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Plan(row.size, Options{Archive: sha256hex.Of(""), Limit: row.limit, Parity: row.parity})
			if row.refused {
				if err == nil {
					t.Errorf("got %d and %d parts", s.Data, s.Parity)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			header, headErr := headSize(s, 0)
			if headErr != nil || s.Data != row.data || s.total() != row.parts || 2*header+s.PartSize > row.limit {
				t.Errorf("got %d and %d parts of %d bytes, %v", s.Data, s.Parity, s.PartSize+2*header, err)
			}
		})
	}
}

// TestParityIsThatOfLibrary compares the code with the encoder of the library that multiplies for it.
func TestParityIsThatOfLibrary(t *testing.T) {
	for _, n := range [][2]int{{1, 1}, {2, 1}, {17, 3}, {200, 56}} {
		encoder, err := reedsolomon.New(n[0], n[1], reedsolomon.WithCauchyMatrix())
		if err != nil {
			t.Fatal(err)
		}
		c := code{data: n[0], parity: n[1]}
		symbols := make([][]byte, n[0]+n[1])
		for i := range symbols {
			symbols[i] = make([]byte, 1000)
			if i < n[0] {
				symbols[i] = archive(1000, byte(i))
			}
		}
		if err := encoder.Encode(symbols); err != nil {
			t.Fatal(err)
		}
		for p := range n[1] {
			var weights []byte
			for d := range n[0] {
				weights = append(weights, c.factor(p, d))
			}
			if !bytes.Equal(c.combine(weights, symbols[:n[0]], 1000), symbols[n[0]+p]) {
				t.Errorf("%v: parity %d differs", n, p)
			}
		}
	}
}

func FuzzHead(f *testing.F) {
	folder, set := split(f, archive(300<<10, 7), 200<<10, 50)
	for part := range set.total() {
		text, err := os.ReadFile(filepath.Join(folder, Name("x", part+1)))
		if err != nil {
			f.Fatal(err)
		}
		size, err := headSize(set, part)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text[:size], true)
		f.Add(text[:size], false)
		changed := bytes.Clone(text[:size])
		changed[size-1]++ // its length, which no digest covers
		f.Add(changed, false)
		f.Add(changed, true)
	}
	f.Add([]byte(magic), true)
	f.Fuzz(func(t *testing.T, data []byte, atEnd bool) {
		if atEnd {
			data = append([]byte("blocks"), data...)
		}
		h, err := readHead(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		again, err := h.encode()
		if err != nil || !bytes.Contains(data, again) || h.number >= h.set.total() || h.set.blocksOf(h.number)*32 != int64(len(h.table)) {
			t.Fatalf("%+v, %v", h, err)
		}
	})
}
