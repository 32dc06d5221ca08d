package fetch

import (
	"context"
	"errors"
	"io"
)

// Progress observes transfers. It is called from several goroutines.
type Progress interface {
	// Start announces a transfer of size bytes, or -1 if not known. Bytes of an earlier attempt do not count.
	Start(name string, size int64) Transfer
}

// Transfer observes one attempt to transfer one blob.
type Transfer interface {
	Add(bytes int)    // more bytes have arrived
	Finish(err error) // nothing follows; err is nil when the blob is stored
}

// Reporting returns a fetcher that reports every attempt of f to progress, which may be nil.
func Reporting(f Fetcher, progress Progress) Fetcher {
	if progress == nil {
		return f
	}
	return fetcherFunc(func(ctx context.Context, b Blob) (Stored, error) {
		var transfer Transfer
		b.watch = func(body io.Reader, left int64) io.Reader {
			if transfer != nil { // a resumed transfer had to restart
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

var errRestarted = errors.New("restarted: the server refused to resume the partial download")

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
