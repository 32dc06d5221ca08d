package server

import (
	"net/http"

	"github.com/sealift/sealift/internal/connlimit"
)

// connectionRate is how many connections a client may open per request that its rate allows. Ranges of bundles have a higher rate.
const connectionRate = 2

// newBounds returns the limits on what clients hold. The rate limit is separate: it bounds how often they send requests.
func (s *Server) newBounds() *connlimit.Limiter {
	o := connlimit.Options{PerClient: s.options.MaxConnectionsPerClient, All: s.options.MaxConnections, Extra: bodyHeld, Health: isHealthCheck, Refuse: s.refuse, Log: s.log}
	opened := newLimits(connectionRate*s.options.Rate, max(1, int(burst*connectionRate*s.options.Rate)))
	o.Admit = func(client string) bool { return opened.allow(client, 1) }
	if s.options.BehindProxy {
		o.Forwarded = func(r *http.Request) string { return connlimit.Key(s.client(r)) }
	}
	return connlimit.New(o)
}

// isHealthCheck reports whether a request is for the operator's probes. They have no rate limit.
func isHealthCheck(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz")
}

// bodyHeld returns the bytes of the request's body, which is received before a handler parses it.
func bodyHeld(r *http.Request) int64 {
	if r.ContentLength < 0 {
		return maxBody
	}
	return min(r.ContentLength, maxBody)
}

// refuse rejects a request beyond the bounds. Clients of this project retry it.
func (s *Server) refuse(w http.ResponseWriter, _ *http.Request) {
	s.metrics.refused.Inc()
	w.Header().Set("Retry-After", "1")
	writeProblem(w, asProblem(connlimit.ErrFull))
}
