package sha256hex_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sealift/sealift/internal/sha256hex"
)

func TestDigestsAreHexadecimal(t *testing.T) {
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2, B.1
	if got := sha256hex.Of("abc"); got != abc {
		t.Errorf("got %s", got)
	}
	if got, size, err := sha256hex.Read(iotest.OneByteReader(strings.NewReader("abc"))); got != abc || size != 3 || err != nil {
		t.Errorf("got %s, %d, %v", got, size, err)
	}
	if got, _, err := sha256hex.Read(io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(io.ErrClosedPipe))); got != abc || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %s, %v", got, err)
	}
}
