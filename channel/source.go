package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/transfer"
	"github.com/sealift/sealift/internal/trust"
	"github.com/sealift/sealift/store"
)

// maxDocument bounds an index or a manifest: ten times the largest that etcd would take an object of.
const maxDocument = 32 << 20

// fetchTries and fetchTimeout bound one read over HTTP (K-11).
const (
	fetchTries    = 5
	fetchTimeout  = time.Minute
	fetchPause    = 500 * time.Millisecond
	fetchRedirect = 10
)

// Source reads indexes and manifests from where they are. The zero value is ready.
type Source struct {
	// Log gets oddities that are not errors. Nil is silence.
	Log *slog.Logger
	// Verify refuses a manifest that differs from the index's hash (K-9). Without it such a manifest is a warning, for indexes of
	// old have hashes of another kind.
	Verify bool
	// Trusted are the keys that packages must be signed with; where there are any, nothing but packages is applied.
	Trusted []signature.PublicKey
	// Pause is the wait before the second try of an answer 404, 429 or 5xx, doubled before each further one; 0 is 500 ms.
	Pause time.Duration
	// CAs are those that servers are trusted by.
	CAs trust.CAs
	// Getenv reads the environment; nil is os.Getenv.
	Getenv func(string) string
}

// Index reads the index at a location; channel is the user's name for it.
func (s Source) Index(ctx context.Context, location *url.URL, channel string) (Index, error) {
	data, err := s.read(ctx, location)
	if err != nil {
		return Index{}, fmt.Errorf("read channel %s: %w", shown(channel), err)
	}
	index, err := Parse(data, location, channel)
	if err != nil {
		return Index{}, fmt.Errorf("read channel %s: %w", shown(channel), err)
	}
	return index, nil
}

func (s Source) log() *slog.Logger {
	return cmp.Or(s.Log, slog.New(slog.DiscardHandler))
}

// read gets a small file. Its error wraps fs.ErrNotExist when there is none.
func (s Source) read(ctx context.Context, at *url.URL) ([]byte, error) {
	if err := knownScheme(at); err != nil {
		return nil, err
	}
	switch at.Scheme {
	case "http", "https":
		return s.readHTTP(ctx, at)
	case "s3":
		return s.readStore(ctx, at)
	}
	return readFile(ctx, at.Path)
}

// writerPatience is how long a pipe may have no writer.
const writerPatience = 5 * time.Second

// readFile reads a file, or a pipe such as the shell's <(command). A pipe without a writer is an error, not an endless wait.
func readFile(ctx context.Context, name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("read %s: it is a folder; name the index or the manifest in it", name)
	}
	if info.Mode()&fs.ModeNamedPipe == 0 {
		return readBounded(f, name)
	}
	defer context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })()
	bounded, cancel := context.WithTimeout(ctx, writerPatience)
	defer cancel()
	var data []byte
	err = poll.Until(bounded, writerPatience/100, nil, func(context.Context) (bool, error) {
		data, err = readBounded(f, name) // ends at once without a writer
		return err == nil && len(data) > 0, err
	})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case poll.Ended(err):
		return nil, fmt.Errorf("read %s: it is a pipe without a writer", name)
	}
	return data, err
}

func readBounded(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > maxDocument {
		return nil, fmt.Errorf("read %s: more than %d MiB, too much for an index or a manifest", name, maxDocument>>20)
	}
	return data, nil
}

// readStore reads through a store, which retries on its own.
func (s Source) readStore(ctx context.Context, at *url.URL) ([]byte, error) {
	o, err := s.open(ctx, at)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return readBounded(io.NewSectionReader(o, 0, o.Size()), redacted(at))
}

// open opens large files, such as a package, for reading in place.
func (s Source) open(ctx context.Context, at *url.URL) (store.Object, error) {
	dir, key := path.Split(at.Path)
	folder := *at
	folder.Path, folder.RawPath = dir, ""
	if isLocal(at) {
		if info, err := os.Stat(at.Path); err == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("read %s: it is not a regular file", at.Path)
		}
		folder = url.URL{Scheme: "file", Path: dir}
	}
	opener, err := s.opener(at)
	if err != nil {
		return nil, err
	}
	if at.Scheme == "s3" && opener.Getenv("SEALIFT_S3_ENDPOINT") == "" && opener.Getenv("SEALIFT_S3_REGION") == "" && at.RawQuery == "" {
		// AWS's settings may contain the region.
		if region, err := opener.Region(ctx, at.Host); err == nil {
			folder.RawQuery = url.Values{"region": {region}}.Encode()
		} else {
			s.log().DebugContext(ctx, "the region of a bucket was not found", "error", err)
		}
	}
	packages, err := opener.Open(folder.String())
	if err != nil {
		return nil, err
	}
	return packages.Get(ctx, key)
}

// opener passes the bucket settings that kOps reads from the environment (K-11) to the store.
func (s Source) opener(at *url.URL) (store.Opener, error) {
	getenv := s.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	o := store.Opener{Log: s.log(), CAs: s.CAs, Getenv: func(name string) string {
		switch name {
		case "SEALIFT_S3_ENDPOINT":
			return cmp.Or(getenv(name), getenv("S3_ENDPOINT"))
		case "SEALIFT_S3_REGION":
			return cmp.Or(getenv(name), getenv("S3_REGION"))
		}
		return getenv(name)
	}}
	if at.Scheme != "s3" || getenv("S3_ENDPOINT") == "" {
		return o, nil
	}
	o.AccessKey = store.AccessKey{ID: getenv("S3_ACCESS_KEY_ID"), Secret: getenv("S3_SECRET_ACCESS_KEY")}
	if o.AccessKey.ID == "" || o.AccessKey.Secret == "" {
		return o, errors.New("S3_ENDPOINT is set, so S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY must be set as well")
	}
	return o, nil
}

// readHTTP tries up to five times while the server answers 404, 429 or 5xx: a mirror may still be filling up (K-11). It waits as long as
// the server asks for, up to transfer.MaxPause.
func (s Source) readHTTP(ctx context.Context, at *url.URL) (data []byte, err error) {
	first := 2 * cmp.Or(s.Pause, fetchPause) // the pause is half of its bound on average
	var status int
	retryable := func(error) bool {
		return status == http.StatusNotFound || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
	}
	retry := transfer.Retry{First: first, Longest: first << fetchTries, Attempts: fetchTries, Transient: retryable}
	err = retry.Do(ctx, func(ctx context.Context) error {
		data, status, err = s.getHTTP(ctx, at)
		return err
	})
	return data, err
}

func (s Source) getHTTP(ctx context.Context, at *url.URL) (data []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, 0, fmt.Errorf("get %s: %w", redacted(at), err)
	}
	req.Header.Set("User-Agent", "sealift")
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = s.CAs.TLS()
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transfer.NotingPauses(transport), CheckRedirect: checkRedirect}
	resp, err := client.Do(req)
	if err != nil {
		return nil, 0, fmt.Errorf("get %s: %w", redacted(at), withoutURL(err))
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, resp.StatusCode, fmt.Errorf("%s does not exist: %w", redacted(at), fs.ErrNotExist)
	case resp.StatusCode != http.StatusOK:
		return nil, resp.StatusCode, fmt.Errorf("%s answered %s", redacted(at), resp.Status)
	}
	data, err = readBounded(resp.Body, redacted(at))
	return data, resp.StatusCode, err
}

// checkRedirect stops redirect loops and long chains of redirects.
func checkRedirect(req *http.Request, via []*http.Request) error {
	for _, before := range via {
		if before.URL.String() == req.URL.String() {
			return fmt.Errorf("redirects form a loop through %s", redacted(req.URL))
		}
	}
	if len(via) >= fetchRedirect {
		return fmt.Errorf("more than %d redirects", fetchRedirect)
	}
	return nil
}
