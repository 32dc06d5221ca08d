package runtime_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/runtime"
)

// files is a tar of files with random content and of one with zeros.
func files(t *testing.T, zeros int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	noise := rand.NewChaCha8([32]byte{1})
	for n := range 40 {
		content := make([]byte, 5000*n)
		_, _ = noise.Read(content)
		write(t, w, fmt.Sprint("file", n), content)
	}
	write(t, w, "zeros", make([]byte, zeros))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func write(t *testing.T, w *tar.Writer, name string, content []byte) {
	t.Helper()
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
}

// compressed writes a text in parts through a compressing writer; a part is flushed or is a separate member.
func compressed(t *testing.T, text []byte, part int, member bool, open func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var out bytes.Buffer
	w := open(&out)
	for len(text) > 0 {
		n := min(part, len(text))
		if _, err := w.Write(text[:n]); err != nil {
			t.Fatal(err)
		}
		if text = text[n:]; member && len(text) > 0 {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			w = open(&out)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// stargz compresses as eStargz does: gzip members, then one with the table of contents, and an empty one whose header says where that
// begins (stargz-snapshotter, docs/estargz.md, "TOC, TOCEntries and Footer").
func stargz(t *testing.T, text []byte) []byte {
	t.Helper()
	type entry struct {
		Type string `json:"type"`
		Size int64  `json:"size"`
	}
	var entries []entry
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry{"reg", h.Size}, entry{"chunk", h.Size / 2})
	}
	toc, err := json.Marshal(map[string]any{"version": 1, "entries": entries})
	if err != nil {
		t.Fatal(err)
	}
	var contents, out bytes.Buffer
	w := tar.NewWriter(&contents)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "stargz.index.json", Size: int64(len(toc))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(toc); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	gz := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	out.Write(compressed(t, text, 4<<20, true, gz))
	at := out.Len()
	out.Write(compressed(t, contents.Bytes(), contents.Len(), true, gz))
	footer, err := gzip.NewWriterLevel(&out, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	footer.Extra = append([]byte{'S', 'G', 22, 0}, fmt.Sprintf("%016xSTARGZ", at)...)
	if err := footer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestUnpackedSizeCountsEachLayerFormat(t *testing.T) {
	const zeros = 20 << 20
	text := files(t, zeros)
	zs := func(options ...zstd.EOption) func(io.Writer) io.WriteCloser {
		return func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w, options...)
			if err != nil {
				t.Fatal(err)
			}
			return z
		}
	}
	gz := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	whole := len(text)
	skippable := append([]byte("\x50\x2a\x4d\x18\x05\x00\x00\x00hello"), compressed(t, text, whole, false, zs())...)
	for name, row := range map[string]struct {
		layer []byte
		media types.MediaType
		most  int // above the size of the text
	}{
		"gzip":                            {compressed(t, text, whole, false, gz), types.OCILayer, 0},
		"a plain tar":                     {text, types.OCIUncompressedLayer, 0},
		"zstd with its size":              {zs()(nil).(*zstd.Encoder).EncodeAll(text, nil), types.OCILayerZStd, 0},
		"zstd as a stream":                {compressed(t, text, 1<<16, false, zs()), types.OCILayerZStd, 256 << 10},
		"zstd without checksums":          {compressed(t, text, 1<<16, false, zs(zstd.WithEncoderCRC(false))), types.OCILayerZStd, 256 << 10},
		"zstd with a wide window":         {compressed(t, text, 1<<16, false, zs(zstd.WithWindowSize(64<<20))), types.OCILayerZStd, 256 << 10},
		"zstd with a small window":        {compressed(t, text, 1<<16, false, zs(zstd.WithWindowSize(1<<14))), types.OCILayerZStd, 256 << 10},
		"zstd of many frames":             {compressed(t, text, 1<<20, true, zs()), types.OCILayerZStd, 22 * (128 << 10)},
		"zstd behind a frame to skip":     {skippable, types.OCILayerZStd, 256 << 10},
		"eStargz":                         {stargz(t, text), types.OCILayer, 64 << 10},
		"gzip of many members of no size": {compressed(t, text[:2<<20], 1<<16, true, gz), types.OCILayer, 8 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			img, err := mutate.AppendLayers(image(t, 0), static.NewLayer(row.layer, row.media))
			if err != nil {
				t.Fatal(err)
			}
			data := pack(t, map[string]v1.Image{"example.org/one:1": img})
			want := len(text)
			if name == "gzip of many members of no size" {
				want = 2 << 20
			}
			local, err := bundle.NewArchive(bytes.NewReader(data), int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			far, err := bundle.NewArchive(distant{bytes.NewReader(data)}, int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := runtime.UnpackedSize(openLayout(t, local))
			if got -= int64(len(row.layer)); err != nil || got < int64(want) || got > int64(want+row.most+10_000) {
				t.Errorf("%d bytes, %v; want %d to %d", got, err, want, want+row.most)
			}
			if guess, err := runtime.UnpackedSize(openLayout(t, far)); err != nil || guess-int64(len(row.layer)) < int64(min(want, 3*len(row.layer))) {
				t.Errorf("from a server %d bytes, %v", guess, err)
			}
		})
	}
}

// distant is an archive on a server: every read is a request.
type distant struct{ *bytes.Reader }

func (d distant) Section(int64) io.ReaderAt { return d.Reader }

func TestDamagedLayersHaveBoundedSize(t *testing.T) {
	for name, layer := range map[string]string{
		"a zstd frame that is cut":      "\x28\xb5\x2f\xfd\x00\x58\xff\xff\xff and no more than this",
		"a frame to skip that is cut":   "\x50\x2a\x4d\x18\xff\xff\xff\xff and no more than this",
		"a gzip file that is cut":       "\x1f\x8b\x08\x00 and no more than this",
		"a block of a kind that is not": "\x28\xb5\x2f\xfd\x00\x58\x07\x00\x00 and no more than this",
	} {
		img, err := mutate.AppendLayers(image(t, 0), static.NewLayer([]byte(layer), types.OCILayer))
		if err != nil {
			t.Fatal(err)
		}
		if size, err := runtime.UnpackedSize(openLayout(t, archive(t, map[string]v1.Image{"example.org/one:1": img}))); err != nil || size < 0 || size > 1<<40 {
			t.Errorf("%s: %d bytes, %v", name, size, err)
		}
	}
}
