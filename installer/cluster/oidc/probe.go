package oidc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/spec"
)

const (
	probeTime   = 10 * time.Second
	maxDocument = 1 << 20
	// maxSkew is how far the clocks may differ. API servers refuse a token that was signed later than now, or ended before.
	maxSkew = time.Minute
)

// discoveryPath is where an issuer describes itself (OpenID Connect Discovery 1.0, section 4).
const discoveryPath = "/.well-known/openid-configuration"

// Problem is why tokens of an issuer would not be accepted, and what to do.
type Problem struct {
	Err  error
	Hint string
}

// Probe asks an issuer for its description as the API server of this host will: without a proxy. It returns nil if all is well.
func Probe(ctx context.Context, i spec.Issuer) *Problem {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(probeTime))
	defer cancel()
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if i.CACertificate != "" {
		settings.RootCAs = x509.NewCertPool()
		settings.RootCAs.AppendCertsFromPEM([]byte(i.CACertificate))
	}
	transport := &http.Transport{TLSClientConfig: settings, Proxy: cluster.NoProxy}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(i.URL, "/")+discoveryPath, nil)
	if err != nil {
		return &Problem{err, "correct its url in the Installer"}
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return unreachable(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return &Problem{fmt.Errorf("%s answers %s", request.URL, answer.Status), "correct its url in the Installer, or mend the issuer"}
	}
	if problem := described(answer.Body, i.URL); problem != nil {
		return problem
	}
	return skewed(answer.Header.Get("Date"), time.Now())
}

// unreachable explains why there is no answer.
func unreachable(err error) *Problem {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return &Problem{err, "give the CA of the issuer as caCertificate or caFile in the Installer"}
	case errors.As(err, &name):
		return &Problem{err, "use a name that the certificate of the issuer has"}
	case errors.As(err, &invalid):
		return &Problem{err, "renew the certificate of the issuer, or set the clock that is wrong"}
	}
	return &Problem{err, "open the way from this control plane to the issuer, or correct its url"}
}

// described checks the document: an API server takes no other issuer than its own setting.
func described(document io.Reader, url string) *Problem {
	var is struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.NewDecoder(io.LimitReader(document, maxDocument)).Decode(&is); err != nil {
		return &Problem{fmt.Errorf("its description cannot be read: %w", err), "correct its url in the Installer"}
	}
	switch {
	case is.Issuer != url:
		return &Problem{fmt.Errorf("it calls itself %q", is.Issuer), "write exactly that as its url in the Installer, if it is the right issuer"}
	case is.Keys == "":
		return &Problem{errors.New("its description names no jwks_uri"), "mend the issuer"}
	}
	return nil
}

// skewed compares the clocks of the issuer and of this host. A server may send no time.
func skewed(date string, now time.Time) *Problem {
	at, err := http.ParseTime(date)
	if err != nil {
		return nil
	}
	if off := now.Sub(at); off.Abs() > maxSkew {
		return &Problem{fmt.Errorf("its clock and that of this host differ by %s", off.Abs().Round(time.Second)), "set the clock that is wrong"}
	}
	return nil
}
