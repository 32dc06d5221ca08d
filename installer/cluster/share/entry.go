package share

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/poll"
)

const (
	// stallTime is how long a connection may bring nothing before it is given up.
	stallTime = time.Minute
	// patience is how long a node that serves its files may be unreachable, for example during a restart.
	patience   = 5 * time.Minute
	retryPause = 2 * time.Second
)

// entry is a file of the node's bundle while it is being fetched. A broken connection is resumed where it broke.
type entry struct {
	client *Client
	ctx    context.Context
	cancel context.CancelFunc
	of     bundle.Entry
	path   string // of the request
	at     int64
	body   io.ReadCloser
	stall  *time.Timer
}

func (c *Client) open(ctx context.Context, of bundle.Entry, path string) *entry {
	e := &entry{client: c, of: of, path: path}
	e.ctx, e.cancel = context.WithCancel(ctx)
	return e
}

func (e *entry) Read(p []byte) (n int, err error) {
	if e.at == e.of.Size {
		return 0, io.EOF
	}
	ctx, cancel := context.WithTimeout(e.ctx, patience)
	defer cancel()
	err = poll.Until(ctx, retryPause, nil, func(context.Context) (_ bool, err error) {
		n, err = e.read(p)
		e.at += int64(n)
		if n > 0 {
			return true, nil
		}
		e.drop()
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if !final(err) {
			err = poll.NotYet(err)
		}
		return false, err
	})
	if err != nil {
		return 0, fmt.Errorf("fetch %s: %w", e.of.Path, err)
	}
	return n, nil
}

// final reports whether asking again would bring the same.
func final(err error) bool {
	var untrusted *CAError
	return errors.Is(err, ErrToken) || errors.Is(err, ErrMember) || errors.Is(err, ErrCertificateKey) || errors.Is(err, fs.ErrNotExist) || errors.As(err, &untrusted)
}

func (e *entry) read(p []byte) (int, error) {
	if e.body == nil {
		ctx, cancel := context.WithCancelCause(e.ctx)
		stalled := fmt.Errorf("%s sent nothing for %s", e.client.address, stallTime)
		response, err := e.client.do(ctx, http.MethodGet, e.path, nil, fmt.Sprintf("bytes=%d-", e.at))
		if err != nil {
			cancel(nil)
			return 0, err
		}
		if e.at > 0 && response.StatusCode != http.StatusPartialContent {
			cancel(nil)
			return 0, errors.Join(fmt.Errorf("%s does not go on at byte %d", e.client.address, e.at), response.Body.Close())
		}
		e.body = &cancelling{response.Body, cancel}
		e.stall = time.AfterFunc(stallTime, func() { cancel(stalled) })
	}
	e.stall.Reset(stallTime)
	defer e.stall.Stop()
	return e.body.Read(p)
}

// cancelling ends the request with the body.
type cancelling struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (c *cancelling) Close() error {
	c.cancel(nil)
	return c.ReadCloser.Close()
}

func (e *entry) drop() {
	if e.body != nil {
		_ = e.body.Close()
		e.body = nil
	}
}

// Seek implements io.Seeker, so that a host can resume a file that it has the beginning of.
func (e *entry) Seek(off int64, whence int) (int64, error) {
	if whence != io.SeekStart || off < 0 || off > e.of.Size {
		return e.at, fmt.Errorf("%s has no byte %d to resume from", e.of.Path, off)
	}
	e.drop()
	e.at = off
	return off, nil
}

// ReadAt fetches only a part, to learn sizes.
func (e *entry) ReadAt(p []byte, off int64) (int, error) {
	ctx, cancel := context.WithTimeout(e.ctx, answerTime)
	defer cancel()
	response, err := e.client.do(ctx, http.MethodGet, e.path, nil, fmt.Sprintf("bytes=%d-%d", off, off+int64(len(p))-1))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusPartialContent {
		return 0, fmt.Errorf("%s does not answer with parts of files", e.client.address)
	}
	return io.ReadFull(response.Body, p)
}

func (e *entry) Close() error {
	e.drop()
	e.cancel()
	return nil
}
