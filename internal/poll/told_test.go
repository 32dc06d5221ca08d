package poll_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sealift/sealift/internal/poll"
)

func TestSameErrorIsNewOnce(t *testing.T) {
	var told poll.Told
	ended, end := context.WithCancel(t.Context())
	end()
	for n, pass := range []struct {
		ctx  context.Context
		err  error
		want bool
	}{
		{t.Context(), nil, false}, {t.Context(), errors.New("a"), true}, {t.Context(), errors.New("a"), false}, {t.Context(), errors.New("b"), true},
		{ended, errors.New("c"), false}, {t.Context(), nil, false}, {t.Context(), errors.New("b"), true},
	} {
		if got := told.IsNew(pass.ctx, pass.err); got != pass.want {
			t.Errorf("pass %d: %t", n, got)
		}
	}
}
