package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/sealift/sealift/bundle/ocilayout"
)

// Run sends what the registry lacks. A run that was interrupted is continued by another one: what arrived stays. The Summary has what
// was done so far, even with an error.
func (p *Push) Run(ctx context.Context) (Summary, error) {
	done := Summary{Target: p.Target, Images: append([]Image(nil), p.Images...), Total: p.Total}
	var sent, mounted atomic.Int64
	p.record(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * p.options.Parallel)
	for n, i := range p.images {
		if p.Images[n].State == Present {
			continue
		}
		group.Go(func() error {
			u := upload{Push: p, image: i, path: p.options.Target.path(i.repository), sent: &sent, mounted: &mounted}
			digest, note, err := u.run(ctx)
			if _, refused := refusal(err); refused {
				return fmt.Errorf("push %s: %w\ngive these credentials the right to push to %s, and to make it if it does not exist", done.Images[n].Target, err, u.path)
			}
			if err != nil {
				return fmt.Errorf("push %s: %w", done.Images[n].Target, err)
			}
			done.Images[n].State, done.Images[n].Digest, done.Images[n].Note = Pushed, digest, note
			p.options.Say("pushed " + done.Images[n].Target)
			return nil
		})
	}
	err := group.Wait()
	done.Send, done.Mounted = sent.Load(), mounted.Load()
	return done, err
}

// upload is the upload of one image.
type upload struct {
	*Push
	image
	path          string
	repo          *remote.Repository
	sent, mounted *atomic.Int64
}

func (u *upload) run(ctx context.Context) (digest, note string, err error) {
	if u.repo, err = u.open(u.path); err != nil {
		return "", "", err
	}
	group, blobs := errgroup.WithContext(ctx)
	for _, d := range u.image.blobs {
		group.Go(func() error { return u.bring(blobs, u.Push.blobs[d.Digest.String()]) })
	}
	if err := group.Wait(); err != nil {
		return "", "", err
	}
	text, err := u.below(ctx, u.root)
	if err != nil {
		return "", "", err
	}
	err = u.put(ctx, u.root.Descriptor, text, u.target())
	if u.root.Absent == 0 || !refusesIndex(err) {
		return u.root.Digest.String(), "", err
	}
	if u.tag == "" {
		return u.root.Digest.String(), untaggedNote, nil
	}
	reduced, text, err := u.image.reduce()
	if err != nil {
		return "", "", err
	}
	return reduced.Digest.String(), reducedNote, u.put(ctx, reduced, text, u.tag)
}

// bring makes sure that the image's repository has a blob. Two images with the same blob do it one after the other, so that the
// second one can have it copied.
func (u *upload) bring(ctx context.Context, b *blob) error {
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.unlock()
	if b.in[u.path] {
		return nil
	}
	select {
	case u.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-u.slots }()
	tried := false
	err := u.options.retry(ctx, func(ctx context.Context) error {
		if tried { // an answer may be lost, and not the bytes
			if there, err := u.repo.Blobs().Exists(ctx, b.Descriptor); there || err != nil && !hides(err) {
				return err
			}
		}
		tried = true
		if b.first == "" {
			return u.send(ctx, b, u.repo.Blobs().Push)
		}
		opened := false
		err := u.send(ctx, b, func(ctx context.Context, d ocispec.Descriptor, content io.Reader) error {
			return u.repo.Mount(ctx, d, b.first, func() (io.ReadCloser, error) { // it did not copy the blob
				opened = true
				return io.NopCloser(content), nil
			})
		})
		if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok && !opened && answer.StatusCode/100 == 4 && !transient(err) {
			return u.send(ctx, b, u.repo.Blobs().Push) // no right to read there
		}
		if err == nil && !opened {
			u.mounted.Add(b.Size)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("blob %s: %w", b.Digest, err)
	}
	b.in[u.path] = true
	if b.first == "" {
		b.first = u.path
	}
	return nil
}

// send opens the content of a blob and gives it to push. It ends a transfer that makes no progress.
func (u *upload) send(ctx context.Context, b *blob, push func(context.Context, ocispec.Descriptor, io.Reader) error) (err error) {
	content := io.NopCloser(bytes.NewReader(b.data))
	if b.data == nil {
		if content, err = u.archive.OpenEntry(b.path); err != nil {
			return err
		}
	}
	defer content.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &progress{from: content, stall: u.options.Stall}
	r.timer = time.AfterFunc(r.stall, func() {
		if !r.whole.Load() { // from then on the transport waits for the answer, with its own limit
			cancel(errStalled)
		}
	})
	defer r.timer.Stop()
	err = push(ctx, b.Descriptor, r)
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		return fmt.Errorf("%w for %s", errStalled, u.options.Stall)
	}
	if err == nil {
		u.sent.Add(r.n.Load())
	}
	return err
}

// progress counts the bytes of an upload, and restarts its timer with each.
type progress struct {
	from  io.Reader
	timer *time.Timer
	stall time.Duration
	n     atomic.Int64
	whole atomic.Bool
}

func (p *progress) Read(data []byte) (int, error) {
	n, err := p.from.Read(data)
	p.n.Add(int64(n))
	p.timer.Reset(p.stall)
	if err != nil {
		p.whole.Store(true)
	}
	return n, err
}

// below pushes what is below a manifest, by its digest, and returns the manifest's text.
func (u *upload) below(ctx context.Context, m ocilayout.Manifest) ([]byte, error) {
	for _, child := range m.Children {
		text, err := u.below(ctx, child)
		if err == nil {
			err = u.put(ctx, child.Descriptor, text, child.Digest.String())
		}
		if err != nil {
			return nil, err
		}
	}
	return u.document(m.Digest)
}

func (u *upload) put(ctx context.Context, d ocispec.Descriptor, text []byte, name string) error {
	d.Platform = nil
	return u.options.retry(ctx, func(ctx context.Context) error {
		return u.repo.PushReference(ctx, d, bytes.NewReader(text), name)
	})
}

// refusesIndex reports whether a registry does not take an index because it lacks some of its manifests.
func refusesIndex(err error) bool {
	answer, ok := errors.AsType[*errcode.ErrorResponse](err)
	if !ok || answer.StatusCode != http.StatusBadRequest && answer.StatusCode != http.StatusNotFound {
		return false
	}
	for _, e := range answer.Errors {
		if strings.HasPrefix(e.Code, "MANIFEST_") || e.Code == "BLOB_UNKNOWN" {
			return true
		}
	}
	return false
}
