package fetch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/sealift/sealift/internal/transfer"
	"github.com/sealift/sealift/internal/trust"
)

// StatusError is an HTTP error status.
type StatusError struct {
	URL    string // without a password
	Code   int
	Header http.Header // of the answer
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s answered %d %s", e.URL, e.Code, http.StatusText(e.Code))
}

// NewTransport returns the transport of a build. It limits every phase of a request except the body, which Client.Bounds
// limits. It uses the proxy settings of the environment and never decompresses content.
func NewTransport(cas trust.CAs) *http.Transport {
	return &http.Transport{
		TLSClientConfig:       cas.TLS(),
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   15 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   16,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
	}
}

// Client sends GET requests.
type Client struct {
	// Transport sends the requests; nil means http.DefaultTransport.
	Transport http.RoundTripper
	Bounds    transfer.Bounds
}

// Get requests a URL. It returns responses with status 200, 206 (if the request has a range) and 304 (if it has a
// condition). It follows up to transfer.MaxRedirects redirects. Any other status is a *StatusError. The caller must close
// the body.
func (c Client) Get(ctx context.Context, address string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	maps.Copy(req.Header, header)
	req.URL = transfer.EscapePlus(req.URL)
	req.Header.Set("User-Agent", "sealift")
	resp, err := (&http.Client{Transport: c.Bounds.Over(c.Transport)}).Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			return nil, fmt.Errorf("get %s: %w", transfer.Redacted(req.URL), wrapped.Err)
		}
		return nil, err
	}
	if !isExpectedStatus(resp.StatusCode, header) {
		_ = resp.Body.Close()
		return nil, &StatusError{URL: transfer.Redacted(resp.Request.URL), Code: resp.StatusCode, Header: resp.Header}
	}
	return resp, nil
}

func isExpectedStatus(status int, asked http.Header) bool {
	switch status {
	case http.StatusOK:
		return true
	case http.StatusPartialContent:
		return asked.Get("Range") != ""
	case http.StatusNotModified:
		return asked.Get("If-None-Match") != "" || asked.Get("If-Modified-Since") != ""
	}
	return false
}
