package bundle_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
)

// failing is an archive on a server or a disk that fails: reads beyond good bytes return err.
type failing struct {
	*bytes.Reader
	good int64
	err  error
}

func (f failing) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > f.good {
		n, _ := f.Reader.ReadAt(p[:max(0, f.good-at)], at)
		return n, f.err
	}
	return f.Reader.ReadAt(p, at)
}

// TestFailedReadsAreNotTakenForTheArchive has no read failure become another verdict: a foreign archive, a truncated one, or one without a
// signature.
func TestFailedReadsAreNotTakenForTheArchive(t *testing.T) {
	key, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	data := write(t, demo("app"), bundle.WriteOptions{Key: key})
	broken := errors.New("the line is down")
	whole := open(t, data)
	index, _ := whole.Raw()
	for good := range int64(len(index)) { // the index and the signature are at the beginning, and the former is compressed
		a, err := bundle.NewArchive(failing{bytes.NewReader(data), good, broken}, int64(len(data)))
		if err == nil {
			if !a.Signed() {
				t.Errorf("with %d bytes the archive is not signed", good)
			}
			break
		}
		if !errors.Is(err, broken) || errors.Is(err, bundle.ErrForeign) {
			t.Fatalf("with %d bytes: %v", good, err)
		}
	}
	if _, err := bundle.NewArchive(bytes.NewReader(data[:100]), 100); err == nil || errors.Is(err, bundle.ErrForeign) {
		t.Errorf("a truncated archive: %v", err)
	}
}
