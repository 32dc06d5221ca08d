package ctxio_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/ctxio"
)

func TestReadsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	r := ctxio.Reader(ctx, strings.NewReader("ab"))
	if n, err := r.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	cause := errors.New("enough")
	cancel(cause)
	if rest, err := io.ReadAll(r); len(rest) > 0 || !errors.Is(err, cause) {
		t.Errorf("%q, %v", rest, err)
	}
}
