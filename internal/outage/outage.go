// Package outage separates transient network failures from permanent ones. Callers that retry ask it. It never retries
// itself, and it knows no service's own error codes.
package outage

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"

	"golang.org/x/net/http2"
)

// Passes reports whether a retry of the same request may succeed: the connection broke, was refused or timed out, or the
// host is down. An invalid certificate and an unknown name are permanent.
func Passes(err error) bool {
	var certificate *tls.CertificateVerificationError
	var stream http2.StreamError
	var dns *net.DNSError
	var network net.Error
	switch {
	case errors.As(err, &certificate):
		return false
	case errors.As(err, &stream): // the server aborted one stream of a shared HTTP/2 connection
		return true
	case errors.As(err, &dns):
		return dns.IsTemporary || dns.IsTimeout
	case errors.As(err, &network) && network.Timeout():
		return true
	}
	for _, broken := range []error{io.ErrUnexpectedEOF, io.EOF, syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE, syscall.ECONNABORTED, syscall.EHOSTUNREACH} {
		if errors.Is(err, broken) {
			return true
		}
	}
	return false
}

// StatusPasses reports whether an HTTP status is transient: the server is busy or broken (RFC 9110 §15.5.9 and §15.6, RFC
// 6585 §4).
func StatusPasses(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
