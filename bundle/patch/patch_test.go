package patch_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/sealift/sealift/bundle/patch"
	"github.com/sealift/sealift/internal/testing/patchdoc"
)

// program returns bytes like those of machine code: every few bytes, an address. In a later version, code was inserted here and there, and
// the addresses behind it differ.
func program(version uint64, size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	changes := rand.New(rand.NewPCG(version, 3))
	var out []byte
	shift := uint32(0)
	for len(out) < size {
		if version > 0 && changes.IntN(2000) == 0 {
			fresh := make([]byte, 16+changes.IntN(200))
			for i := range fresh {
				fresh[i] = byte(changes.Uint32())
			}
			out = append(out, fresh...)
			shift += uint32(len(fresh))
		}
		for range 4 + r.IntN(12) {
			out = append(out, byte(r.Uint32()))
		}
		out = binary.LittleEndian.AppendUint32(out, r.Uint32()>>12+shift)
	}
	return out
}

func made(t testing.TB, base, result []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := patch.Make(t.Context(), &buf, base, result); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func apply(p, base []byte, size int64) ([]byte, error) {
	r, err := patch.NewReader(bytes.NewReader(p), bytes.NewReader(base), int64(len(base)), size)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(r)
	return got, errors.Join(err, r.Close())
}

func TestPatchMakesTheResult(t *testing.T) {
	old, now := program(0, 1<<20), program(7, 1<<20)
	noise := make([]byte, 300_000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
	for name, c := range map[string]struct {
		base, result []byte
		most         int // bytes of the patch
	}{
		"a later version":       {old, now, len(now) / 10},
		"an earlier version":    {now, old, len(now) / 10},
		"the same":              {old, old, 200},
		"nothing in common":     {noise, old[:300_000], 301_000},
		"an empty base":         {nil, noise, len(noise) + 1000},
		"an empty result":       {noise, nil, 100},
		"a part of the base":    {old, old[1<<18 : 3<<18], 200},
		"parts in other order":  {old, bytes.Join([][]byte{old[3<<18:], old[:3<<18]}, noise), len(noise) + 2000},
		"shorter than any seed": {[]byte("abc"), []byte("abd"), 100},
		"repeated bytes":        {make([]byte, 3<<18), make([]byte, 5<<18), 2000},
	} {
		p := made(t, c.base, c.result)
		got, err := apply(p, c.base, int64(len(c.result)))
		if err != nil || !bytes.Equal(got, c.result) {
			t.Errorf("%s: %d of %d bytes, %v", name, len(got), len(c.result), err)
		}
		if len(p) > c.most {
			t.Errorf("%s: the patch has %d bytes, more than %d", name, len(p), c.most)
		}
		if got, err := patchdoc.Apply(p, c.base); err != nil || !bytes.Equal(got, c.result) {
			t.Errorf("%s, as documented: %d of %d bytes, %v", name, len(got), len(c.result), err)
		}
		if !bytes.Equal(p, made(t, c.base, c.result)) {
			t.Errorf("%s: a second patch differs from the first", name)
		}
	}
}

func TestShiftedAddressesCostLittle(t *testing.T) {
	old, now := program(0, 1<<20), program(9, 1<<20)
	var z bytes.Buffer
	w, err := zstd.NewWriter(&z, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(32<<20), zstd.WithEncoderDictRaw(1, old))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(now); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if p := made(t, old, now); len(p) > z.Len()/2 {
		t.Errorf("the patch has %d bytes; zstd with the old content as dictionary has %d", len(p), z.Len())
	}
}

// TestAddressesThatMoveCostNothing compares a program with the same bytes as something else than a program.
func TestAddressesThatMoveCostNothing(t *testing.T) {
	for name, before := range map[string]int{"a program": 0, "in a layer": 3 * 512} {
		old, now := append(make([]byte, before), patchdoc.Program(0)...), append(make([]byte, before), patchdoc.Program(3)...)
		p := made(t, old, now)
		for _, read := range []func() ([]byte, error){
			func() ([]byte, error) { return apply(p, old, int64(len(now))) },
			func() ([]byte, error) { return patchdoc.Apply(p, old) },
		} {
			if got, err := read(); err != nil || !bytes.Equal(got, now) {
				t.Fatalf("%s: %d of %d bytes, %v", name, len(got), len(now), err)
			}
		}
		old[before], now[before] = 0, 0
		if other := made(t, old, now); len(p) > len(other)/2 {
			t.Errorf("%s: the patch has %d bytes, and without addresses %d", name, len(p), len(other))
		}
	}
}

func TestMakeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := patch.Make(ctx, io.Discard, nil, program(0, 3<<20)); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled patch: %v", err)
	}
}

// packed compresses a stream of segments as a patch has it.
func packed(t testing.TB, numbers ...int64) []byte {
	t.Helper()
	out := bytes.NewBufferString("sealift.patch/v2\n")
	z, err := zstd.NewWriter(out)
	if err != nil {
		t.Fatal(err)
	}
	var stream []byte
	for _, n := range numbers {
		stream = binary.AppendUvarint(stream, uint64(n))
	}
	if _, err := z.Write(stream); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestHostilePatchesAreRefused(t *testing.T) {
	base := program(0, 1000)[:1000]
	// The numbers of regions and steps; for each step the copied bytes, the new ones, and the move (2n for n bytes forward, 2n-1 for n
	// backward). A segment: the number of corrections, what is before each, and what is added (2n for n).
	want := slices.Clone(base[10:15])
	binary.LittleEndian.PutUint32(want[1:], binary.LittleEndian.Uint32(want[1:])+0x0107)
	if got, err := apply(packed(t, 0, 1, 5, 0, 2*10, 1, 1, 2*0x0107), base, 5); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("a patch written by hand: %x %v", got, err)
	}
	whole := made(t, base, program(1, 1000))
	for name, p := range map[string][]byte{
		"empty":                         nil,
		"another format":                []byte("sealift.patch/v1\n" + string(whole[17:])),
		"cut off":                       whole[:len(whole)-9],
		"copies behind the base":        packed(t, 0, 1, 5, 0, 2*998, 0),
		"copies before the base":        packed(t, 0, 1, 5, 0, 1, 0),
		"moves by a huge distance":      packed(t, 0, 1, 5, 0, 1<<62, 0),
		"more steps than allowed":       packed(t, 0, 1<<20, 5, 0, 0, 0),
		"a huge step":                   packed(t, 0, 1, 1<<40, 0, 0, 0),
		"more than the size":            packed(t, 0, 1, 900, 0, 0, 0),
		"more bytes":                    packed(t, 0, 1, 5, 0, 0, 0, 0),
		"an empty step":                 packed(t, 0, 2, 5, 0, 0, 0, 0, 0, 0),
		"a correction behind the bytes": packed(t, 0, 1, 5, 0, 0, 1, 5, 7),
		"fewer bytes":                   packed(t, 0, 1, 4, 0, 0, 0),
		"an unknown region":             packed(t, 1, 3, 0, 10, 0, 1, 5, 0, 0, 0),
		"an empty region":               packed(t, 1, 1, 0, 0, 0, 1, 5, 0, 0, 0),
		"a region behind the base":      packed(t, 1, 1, 900, 101, 0, 1, 5, 0, 0, 0),
		"more regions than allowed":     packed(t, 1<<13),
		"no steps":                      packed(t, 0),
	} {
		if got, err := apply(p, base, 5); err == nil {
			t.Errorf("%s: made %x", name, got)
		}
	}
}

// FuzzMake makes patches of any contents, also of damaged programs.
func FuzzMake(f *testing.F) {
	base := patchdoc.Program(0)
	f.Add(base[:9000], base[4096:9000])
	f.Add(program(0, 100), []byte("another"))
	f.Fuzz(func(t *testing.T, base, result []byte) {
		var buf bytes.Buffer
		if err := patch.Make(t.Context(), &buf, base, result); err != nil {
			t.Fatal(err)
		}
		if got, err := apply(buf.Bytes(), base, int64(len(result))); err != nil || !bytes.Equal(got, result) {
			t.Errorf("%d of %d bytes, %v", len(got), len(result), err)
		}
	})
}

// FuzzReader applies damaged and foreign patches. Each ends with an error or with the declared size.
func FuzzReader(f *testing.F) {
	base := program(0, 5000)
	f.Add(made(f, base, program(3, 5000))[17:], int64(5000))
	f.Add(packed(f, 0, 1, 5, 0, 20, 1, 2, 7)[17:], int64(5))
	f.Add(packed(f, 2, 1, 8, 2000, 0, 2, 0, 2000, 9, 2, 1000, 500, 0, 5, 600, 11, 1, 2, 7, 1, 2, 3, 4, 5)[17:], int64(1505))
	f.Fuzz(func(t *testing.T, stream []byte, size int64) {
		size &= 1<<20 - 1
		out := bytes.NewBufferString("sealift.patch/v2\n")
		z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1)) // the mutated bytes are the stream, not its compressed form
		if err != nil {
			t.Fatal(err)
		}
		_, _ = z.Write(stream)
		_ = z.Close()
		for _, p := range [][]byte{out.Bytes(), append([]byte("sealift.patch/v2\n"), stream...)} {
			if got, err := apply(p, base, size); err == nil && int64(len(got)) != size {
				t.Errorf("made %d of %d bytes without an error", len(got), size)
			}
		}
	})
}
