package fetch

import (
	"context"
	"io"
)

// Progress watches transfers. It is called from several goroutines.
type Progress interface {
	// Start announces a transfer of size bytes, or -1 when the size is not known.
	Start(name string, size int64) Transfer
}

// Transfer watches one attempt to transfer one blob.
type Transfer interface {
	Add(bytes int)    // more bytes have arrived
	Finish(err error) // nothing follows; err is nil when the blob is stored
}

// Reporting returns a fetcher that shows progress every attempt of f. A nil progress watches nothing.
func Reporting(f Fetcher, progress Progress) Fetcher {
	if progress == nil {
		return f
	}
	return fetcherFunc(func(ctx context.Context, b Blob) (Stored, error) {
		var transfer Transfer
		open := b.Open
		b.Open = func(ctx context.Context) (io.ReadCloser, int64, error) {
			body, size, err := open(ctx)
			if err != nil {
				return nil, 0, err
			}
			if b.Size > 0 {
				size = b.Size
			}
			transfer = progress.Start(b.Name, size)
			return &watchedBody{ReadCloser: body, transfer: transfer}, size, nil
		}
		stored, err := f.Fetch(ctx, b)
		if transfer != nil {
			transfer.Finish(err)
		}
		return stored, err
	})
}

type watchedBody struct {
	io.ReadCloser
	transfer Transfer
}

func (w *watchedBody) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.transfer.Add(n)
	}
	return n, err
}
