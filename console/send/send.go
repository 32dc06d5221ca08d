// Package send is the client of uploads: it logs in to the console of a control plane with a token, and sends it a bundle.
//
// An upload resumes where the console has its end, even if an earlier process was killed. The package never sends a token or a session to
// another server than the console.
package send

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/upload"
	"github.com/sealift/sealift/internal/outage"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

const (
	// requestTime is the timeout of one request. A chunk may take as long as the console waits for it.
	requestTime = 10 * time.Minute
	// patience is how long the console may be away, and how long it may check a bundle.
	patience = time.Hour
	// maxAnswer is the maximum length of an answer, in bytes.
	maxAnswer = 1 << 20
)

// Client is a session at a console.
type Client struct {
	base *url.URL
	http *http.Client
	form string // token of forms
}

var formToken = regexp.MustCompile(`name="form" value="([^"]+)"`)

// ErrURL is the error of Login for an address that no console can have.
var ErrURL = errors.New("not the URL of a console")

// Login begins a session with a token of 'sealift-console token'. console is the URL of the console.
func Login(ctx context.Context, console, token string, trusted *tls.Config) (*Client, error) {
	base, err := url.Parse(console)
	if err != nil || base.Scheme != "https" || base.Host == "" || base.User != nil {
		return nil, fmt.Errorf("%q is %w, such as https://node-1:6446", console, ErrURL)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = trusted
	c := &Client{base: base.JoinPath("/"), http: &http.Client{Jar: jar, Transport: transport, Timeout: requestTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	code, page, err := c.request(ctx, http.MethodGet, "login", nil, nil)
	if err != nil {
		return nil, err
	}
	found := formToken.FindSubmatch(page)
	if code != http.StatusOK || found == nil {
		return nil, fmt.Errorf("%s does not answer as a console: status %d", console, code)
	}
	form := url.Values{"form": {string(found[1])}, "token": {token}}
	if code, _, err = c.request(ctx, http.MethodPost, "login", []byte(form.Encode()), map[string]string{"Content-Type": "application/x-www-form-urlencoded"}); err != nil {
		return nil, err
	}
	for _, cookie := range jar.Cookies(c.base) {
		if cookie.Name == access.SessionCookie {
			c.form = access.FormToken(cookie.Value)
		}
	}
	switch {
	case code == http.StatusTooManyRequests:
		return nil, errors.New("the console had too many logins; wait a few seconds, and try again")
	case code != http.StatusSeeOther || c.form == "":
		return nil, fmt.Errorf("log in to %s: %w", console, access.ErrRefused)
	}
	return c, nil
}

// Logout ends the session.
func (c *Client) Logout(ctx context.Context) error {
	_, _, err := c.request(ctx, http.MethodPost, "logout", nil, nil)
	return err
}

// request sends a request, and returns status and body of the answer.
func (c *Client) request(ctx context.Context, method, path string, body []byte, headers map[string]string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	if c.form != "" {
		r.Header.Set(access.FormHeader, c.form)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	return answer.StatusCode, text, errors.Join(err, answer.Body.Close())
}

// answerError is an answer of the console that refuses a request.
type answerError struct {
	code int
	text string
}

func (e *answerError) Error() string { return e.text }

// ask sends a request about an upload. Errors that a later request may not have are marked for package poll.
func (c *Client) ask(ctx context.Context, method, path string, body []byte, headers map[string]string) (d upload.Document, err error) {
	code, text, err := c.request(ctx, method, path, body, headers)
	switch {
	case err != nil && outage.Passes(err):
		return d, poll.NotYet(err)
	case err != nil:
		return d, err
	case code == http.StatusOK || code == http.StatusCreated:
		if err := json.Unmarshal(text, &d); err != nil {
			return d, fmt.Errorf("read the answer of the console: %w", err)
		}
		return d, d.Check()
	}
	refused := &answerError{code, strings.TrimSpace(string(text))}
	if outage.StatusPasses(code) && code != http.StatusInsufficientStorage && method != http.MethodPost || code == http.StatusLocked || code == http.StatusUnprocessableEntity {
		return d, poll.NotYet(refused)
	}
	return d, refused
}

// Open opens the file of a bundle to send. Do so before Login, which uses the token up.
func Open(file string) (*os.File, error) {
	if err := upload.CheckName(filepath.Base(file)); err != nil {
		return nil, err
	}
	return regularfile.Open(file)
}

// Upload sends a bundle that Open has opened, and returns when it can be used. It calls progress as the upload advances. An error is final: the console has refused
// the bundle, or was away for an hour.
func (c *Client) Upload(ctx context.Context, f *os.File, progress func(upload.Upload), say func(error)) (upload.Upload, error) {
	d, err := c.begin(ctx, f)
	if err != nil {
		return d.Upload, err
	}
	path := "uploads/" + d.ID
	for d.State == upload.Receiving {
		progress(d.Upload)
		if d, err = c.sendChunk(ctx, f, path, d, say); err != nil {
			return d.Upload, err
		}
	}
	progress(d.Upload)
	if d, err = c.await(ctx, path, d, say); err != nil {
		return d.Upload, err
	}
	if d.State == upload.Refused {
		return d.Upload, fmt.Errorf("the console has refused %s: %s", d.Name, d.Reason)
	}
	return d.Upload, nil
}

// begin creates an upload, or finds the one to resume. One of another file with the same name is cancelled.
func (c *Client) begin(ctx context.Context, f *os.File) (d upload.Document, err error) {
	info, err := f.Stat()
	if err != nil {
		return d, err
	}
	create := func() (upload.Document, error) {
		return c.ask(ctx, http.MethodPost, "uploads", nil, map[string]string{"Upload-Name": filepath.Base(f.Name()), "Upload-Length": strconv.FormatInt(info.Size(), 10)})
	}
	if d, err = create(); err != nil || d.Tail.Size == 0 {
		return d, err
	}
	sum, _, err := digest(f, d.Offset-d.Tail.Size, d.Tail.Size)
	if err != nil || sum == d.Tail.SHA256 {
		return d, err
	}
	if _, _, err := c.request(ctx, http.MethodPost, "uploads/"+d.ID+"/cancel", nil, nil); err != nil {
		return d, err
	}
	return create()
}

// digest reads a part of a file.
func digest(f *os.File, offset, size int64) (sum string, data []byte, err error) {
	data = make([]byte, size)
	if _, err := f.ReadAt(data, offset); err != nil {
		return "", nil, err
	}
	return sha256hex.Of(data), data, nil
}

// sendChunk sends the next chunk. After a failure it asks where the upload ends, and sends from there.
func (c *Client) sendChunk(ctx context.Context, f *os.File, path string, d upload.Document, say func(error)) (upload.Document, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	failed := false
	pauses := poll.Backoff{First: time.Second, Longest: 30 * time.Second}
	err := pauses.Until(ctx, say, func(ctx context.Context) (done bool, err error) {
		if failed {
			if d, err = c.ask(ctx, http.MethodGet, path, nil, nil); err != nil {
				return false, err
			}
			if d.State != upload.Receiving {
				return true, nil
			}
		}
		sum, data, err := digest(f, d.Offset, min(d.Chunk, d.Length-d.Offset))
		if err != nil {
			return false, err
		}
		next, err := c.ask(ctx, http.MethodPatch, path, data, map[string]string{"Upload-Offset": strconv.FormatInt(d.Offset, 10), "Upload-SHA256": sum})
		if err == nil {
			d = next
			return true, nil
		}
		failed = true
		if refused, ok := errors.AsType[*answerError](err); ok && refused.code == http.StatusConflict {
			err = poll.NotYet(err)
		}
		return false, err
	})
	return d, err
}

// await waits until the console has checked the bundle.
func (c *Client) await(ctx context.Context, path string, d upload.Document, say func(error)) (upload.Document, error) {
	if d.State != upload.Checking {
		return d, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := poll.Until(ctx, time.Second, say, func(ctx context.Context) (done bool, err error) {
		if d, err = c.ask(ctx, http.MethodGet, path, nil, nil); err != nil {
			return false, err
		}
		return d.State != upload.Checking, nil
	})
	return d, err
}
