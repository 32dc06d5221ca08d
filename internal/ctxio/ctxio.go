// Package ctxio lets reads end with a context.
package ctxio

import (
	"context"
	"io"
)

// Reader returns a reader that fails with the cause of ctx once ctx has ended. A read that has begun goes on: a file has no other way.
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
