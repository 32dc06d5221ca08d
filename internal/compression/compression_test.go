package compression_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/sealift/sealift/internal/compression"
)

const window = 1 << 20

func gzipped(t testing.TB, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstandard(t testing.TB, text string, size int) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithWindowSize(size))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestFormsAreUnpacked(t *testing.T) {
	text := strings.Repeat("text ", 1000)
	skipped := []byte{0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}
	for name, row := range map[string]struct {
		data []byte
		form compression.Form
		want string
	}{
		"plain":                     {[]byte(text), compression.None, text},
		"nothing":                   {nil, compression.None, ""},
		"one byte of gzip":          {[]byte{0x1f}, compression.None, "\x1f"},
		"gzip":                      {gzipped(t, text), compression.Gzip, text},
		"two members":               {append(gzipped(t, text), gzipped(t, "end")...), compression.Gzip, text + "end"},
		"zstd":                      {zstandard(t, text, window), compression.Zstd, text},
		"two frames":                {append(zstandard(t, text, window), zstandard(t, "end", window)...), compression.Zstd, text + "end"},
		"zstd with a frame to skip": {append(skipped, zstandard(t, text, window)...), compression.Zstd, text},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compression.Of(row.data); got != row.form {
				t.Errorf("form %d, want %d", got, row.form)
			}
			r, err := compression.NewReader(iotest.OneByteReader(bytes.NewReader(row.data)), window)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if err != nil || string(got) != row.want {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDamageIsAnError(t *testing.T) {
	// Zeros are one block, so the frame says its window only if the content is larger than that.
	large := zstandard(t, strings.Repeat("x", 4*window), 2*window)
	for name, data := range map[string][]byte{
		"gzip that ends early": gzipped(t, "text")[:15],
		"zstd that ends early": zstandard(t, strings.Repeat("text", 1000), window)[:12],
		"a window too large":   large,
	} {
		r, err := compression.NewReader(bytes.NewReader(data), window)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if err == nil || errors.Is(err, compression.ErrWindow) != (name == "a window too large") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := compression.NewReader(iotest.ErrReader(io.ErrClosedPipe), window); err != io.ErrClosedPipe { //nolint:errorlint // unchanged
		t.Errorf("%v", err)
	}
}
