package fetch

import (
	"context"
	"errors"
	"io"
)

// Progress watches transfers. It is called from several goroutines.
type Progress interface {
	// Start announces a transfer of size bytes, or -1 when the size is not known; what arrived before does not count.
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
		b.watch = func(body io.Reader, left int64) io.Reader {
			if transfer != nil { // a continued transfer was of no use and has begun anew
				transfer.Finish(errRestarted)
			}
			transfer = progress.Start(b.Name, left)
			return &watchedBody{body: body, transfer: transfer}
		}
		stored, err := f.Fetch(ctx, b)
		if transfer != nil {
			transfer.Finish(err)
		}
		return stored, err
	})
}

var errRestarted = errors.New("what had arrived before was of no use")

type watchedBody struct {
	body     io.Reader
	transfer Transfer
}

func (w *watchedBody) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	if n > 0 {
		w.transfer.Add(n)
	}
	return n, err
}
