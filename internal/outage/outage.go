// Package outage tells failures of a network that may pass by themselves from those that stay. Whoever tries again asks it;
// it never tries again itself, and it knows no service's own words for being busy.
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

// Passes says whether the same request may well get an answer later: the connection broke, was refused or timed out, or the
// machine is off. A certificate that does not hold and a name that does not exist stay as they are.
func Passes(err error) bool {
	var certificate *tls.CertificateVerificationError
	var stream http2.StreamError
	var dns *net.DNSError
	var network net.Error
	switch {
	case errors.As(err, &certificate):
		return false
	case errors.As(err, &stream): // the server broke off one answer of a connection that several share
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

// StatusPasses says whether a server that answered with this HTTP status may well answer otherwise later: it is busy or
// broken (RFC 9110 §15.5.9 and §15.6, RFC 6585 §4).
func StatusPasses(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
