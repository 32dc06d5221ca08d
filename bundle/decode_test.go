package bundle

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/bundle/signature"
)

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// hostile makes an archive that has only an index.
func hostile(t *testing.T, index string, sign *signature.Key) []byte {
	t.Helper()
	var out bytes.Buffer
	header, err := tarHeader(Entry{Path: IndexName, Mode: 0o644, Size: int64(len(index))})
	if err != nil {
		t.Fatal(err)
	}
	gz := gzip.NewWriter(&out)
	_, _ = gz.Write(header)
	_, _ = gz.Write([]byte(index))
	_, _ = gz.Write(make([]byte, (512-len(index)%512)%512))
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	if sign != nil {
		if err := writeSignature(&out, IndexName, []byte(index), sign); err != nil {
			t.Fatal(err)
		}
	}
	return append(out.Bytes(), endOfArchive...)
}

func TestSmallArchiveNeedsLittleMemory(t *testing.T) {
	const head = `{"format":"sealift.dev/archive/v1","kind":"bundle",`
	fill := func(one string) string { return strings.Repeat(one+",", (60<<20)/(len(one)+1)) + one }
	for name, index := range map[string]string{
		"empty entries":     head + `"packages":[],"entries":[` + fill("{}") + `]}`,
		"empty packages":    head + `"packages":[` + fill("{}") + `],"entries":[]}`,
		"empty images":      head + `"packages":[{"name":"a","version":"1","images":[` + fill("{}") + `]}],"entries":[]}`,
		"empty platforms":   head + `"platforms":[` + fill(`""`) + `],"packages":[],"entries":[]}`,
		"nothing but space": head + `"packages":[],"entries":[]}` + strings.Repeat(" ", 60<<20),
	} {
		t.Run(name, func(t *testing.T) {
			data := hostile(t, index, nil)
			var err error
			took := allocated(func() { _, err = NewArchive(bytes.NewReader(data), int64(len(data))) })
			if err == nil || took > 32<<20 {
				t.Errorf("an archive of %d bytes took %d MiB: %v", len(data), took>>20, err)
			}
		})
		t.Run(name+", in a large file", func(t *testing.T) { // the size of the file allows for a large index
			if err := checkDensity([]byte(index)); err == nil && name != "nothing but space" {
				t.Error("is not refused before it is decoded")
			}
		})
	}
}

func TestForeignSignatureIsRefusedBeforeIndexIsParsed(t *testing.T) {
	own, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := own.Public()
	if err != nil {
		t.Fatal(err)
	}
	data := hostile(t, "no index at all", stranger)
	if _, err := NewArchive(bytes.NewReader(data), int64(len(data)), trusted); !errors.Is(err, ErrUntrusted) {
		t.Errorf("of a stranger: %v", err)
	}
	data = hostile(t, "no index at all", own)
	if _, err := NewArchive(bytes.NewReader(data), int64(len(data)), trusted); err == nil || errors.Is(err, ErrUntrusted) {
		t.Errorf("of the key: %v", err)
	}
}
