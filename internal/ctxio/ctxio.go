// Package ctxio lets reads end with a context.
package ctxio

import (
	"context"
	"io"
)

// Reader returns a reader that fails with the cause of ctx once ctx has ended. It cannot interrupt a read that has begun: files do not support that.
func Reader(ctx context.Context, r io.Reader) io.Reader { return reader{ctx, r} }

type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}
