// Package server serves Installers, scripts and bundles over HTTP. It keeps no state: Installers are objects in the store
// beside the packages, and bundles are assembled from ranges of packages while they are sent. Every replica on the same
// store serves the same bytes.
//
// The package never builds a package and never runs anything. It sends requests only to its store and to addresses that its
// operator allows, never to an address just because an Installer names it.
package server

import (
	"context"
	"crypto/tls"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/bundle/lean"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/internal/certfile"
	"github.com/sealift/sealift/internal/connlimit"
	"github.com/sealift/sealift/server/page"
	"github.com/sealift/sealift/store"
)

// Options configures a server. Packages and Programs are required.
type Options struct {
	Packages packages.Source // also the store of Installers
	// Programs are the programs for the nodes, one for each platform of theirs. The sealift-preflight among them is in bundles that
	// need it, or in all if KeepPreflight is set.
	Programs      []assemble.Program
	KeepPreflight bool
	// Lean makes and keeps lean forms of layers, for clients that ask for them. nil refuses these.
	Lean *lean.Spool
	// Patches makes and keeps patches, for clients that ask for them. nil refuses these.
	Patches *delta.Spool
	// Commands are the commands of the nodes' sealift that scripts may run: install, join, upgrade.
	Commands []string
	// URL is the URL by which clients reach the server, such as https://sealift.example.com. If empty, the request's Host
	// is used.
	URL string
	// Token is the secret that a request needs to name an Installer. If empty, nobody can.
	Token string
	// Closed requires the token for every Installer, not only for named ones.
	Closed bool
	// Redirect redirects downloads of single packages to the store, if the store can presign URLs.
	Redirect bool
	// Key signs the indexes of bundles. nil means no signature.
	Key *signature.Key
	// Rate is the number of requests per second that a client may send on average; 0 means 50. For a short time it may send
	// four times as many. A range of a bundle counts a tenth.
	Rate float64
	// MaxPerClient is the maximum number of unnamed Installers that a client may store per day without the token; 0 means 100.
	MaxPerClient int
	// MaxInstallers is the maximum number of unnamed Installers that can be stored without the token; 0 means 10,000.
	MaxInstallers int
	// Expire is the time after which unused, unnamed Installers are removed; 0 keeps them.
	Expire time.Duration
	// MaxConnections is the maximum number of connections that all clients may hold, each with a request; 0 means 320. Each takes up to 112 KiB.
	MaxConnections int
	// MaxConnectionsPerClient is the maximum for one client; 0 means 128.
	MaxConnectionsPerClient int
	// BehindProxy uses the last address of X-Forwarded-For as the client's. Connections then belong to the proxy, and
	// MaxConnectionsPerClient bounds the requests in progress of each client.
	BehindProxy bool
	// Drain is how long the server still accepts connections after it is asked to stop. Meanwhile /readyz fails, so that a load
	// balancer sends clients elsewhere.
	Drain time.Duration
	// Grace is how long transfers may continue after that; 0 means 30 seconds.
	Grace time.Duration
	Log   *slog.Logger // nil logs nothing
}

// Server is an http.Handler for all routes.
type Server struct {
	options Options
	mux     *http.ServeMux
	plans   *plans
	limits  *limits
	bounds  *connlimit.Limiter
	bounded http.Handler // routes requests within bounds
	metrics *metrics
	buffers *buffers
	slots   *slots // limits the parsing of Installers and forms
	log     *slog.Logger

	store      store.Store // without the cache of listings
	quota      *quota
	used       *lru[time.Time] // last recorded use of Installers, by id
	tags       *lru[string]    // ETags of packages
	documents  *lru[*document]
	catalogues *lru[*catalogue]

	crossOrigin *http.CrossOriginProtection
	ending      atomic.Bool
}

// Timeouts and limits for clients.
const (
	headerTime = 10 * time.Second // to receive the header of a request
	bodyTime   = 30 * time.Second // to receive its body
	idleTime   = 15 * time.Second // to wait for the next request
	proxyTime  = 2 * time.Minute  // the same for programs that keep their connections: a proxy, Prometheus
	maxHeader  = 32 << 10         // bytes
)

// New makes a server. Its cached plans read the store until ctx ends.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Grace == 0 {
		o.Grace = 30 * time.Second
	}
	if o.Rate == 0 {
		o.Rate = 50
	}
	if o.MaxPerClient == 0 {
		o.MaxPerClient = 100
	}
	if o.MaxInstallers == 0 {
		o.MaxInstallers = 10_000
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 320
	}
	if o.MaxConnectionsPerClient == 0 {
		o.MaxConnectionsPerClient = 128
	}
	if o.URL != "" {
		u, err := url.Parse(o.URL)
		if err == nil && u.User != nil {
			return nil, fmt.Errorf("%q must not have a user: everybody reads it in the scripts for nodes", u.Redacted())
		}
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || !plainHost.MatchString(u.Host) || o.URL != u.Scheme+"://"+u.Host+u.Path || !plainPath.MatchString(u.Path) {
			return nil, fmt.Errorf("%q is not the URL of a server, such as https://sealift.example.com", o.URL)
		}
		o.URL = strings.TrimSuffix(o.URL, "/")
	}
	inner := o.Packages.Store
	o.Packages.Store = newListings(ctx, inner)
	s := &Server{
		store: inner, quota: newQuota(o), used: newLRU[time.Time](maxUsed, nil),
		options: o, log: o.Log, limits: requestLimits(o.Rate), metrics: newMetrics(), slots: newTurns(maxTexts), buffers: newBuffers(), crossOrigin: http.NewCrossOriginProtection(),
		tags: newLRU[string](maxTags, nil), documents: newLRU[*document](maxDocuments, nil), catalogues: newLRU[*catalogue](maxCatalogues, nil),
	}
	if o.URL != "" { // a reverse proxy may change the Host, which is compared with the Origin
		u, _ := url.Parse(o.URL)
		if err := s.crossOrigin.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
			return nil, fmt.Errorf("%q is not the URL of a server: %w", o.URL, err)
		}
	}
	s.bounds = s.newBounds()
	s.bounded = s.bounds.Handler(http.HandlerFunc(s.serveBounded))
	s.metrics.watch(s.bounds)
	s.plans = newPlans(ctx, s)
	s.mux = http.NewServeMux()
	for _, r := range s.routes() {
		s.mux.Handle(r.method+" "+r.pattern, s.handler(r))
	}
	site, err := page.New(pages{s})
	if err != nil {
		return nil, err
	}
	for _, r := range site.Routes() {
		s.mux.Handle(r.Method+" "+r.Pattern, s.handler(route{method: r.Method, pattern: r.Pattern, handle: r.Handle, audited: r.Creates, page: true}))
	}
	s.mux.HandleFunc("/", s.notFound)
	return s, nil
}

// route is one path and method. Its handler returns errors before it has written anything.
type route struct {
	method  string // GET includes HEAD
	pattern string
	handle  func(w http.ResponseWriter, r *http.Request) error
	audited bool // whether it may change something
	page    bool // whether it renders a page, which needs a turn
}

func (s *Server) routes() []route {
	return []route{
		{method: "GET", pattern: "/installer", handle: s.getVersions},
		{method: "POST", pattern: "/installer", handle: s.postInstaller, audited: true},
		{method: "PUT", pattern: "/installer/{name}", handle: s.putInstaller, audited: true},
		{method: "POST", pattern: "/installer/validate", handle: s.validateInstaller},
		{method: "GET", pattern: "/installer/{id}", handle: s.getInstaller},
		{method: "GET", pattern: "/{id}", handle: s.getScript},
		{method: "GET", pattern: "/{id}/{script}", handle: s.getScript},
		{method: "GET", pattern: "/bundle/{file}", handle: s.getBundle},
		{method: "GET", pattern: "/bundle/{id}/packages/{file}", handle: s.getSupplement},
		{method: "GET", pattern: "/dist/{file}", handle: s.getPackage},
		{method: "GET", pattern: "/bin/{digest}/{file}", handle: s.getBinary},
		{method: "GET", pattern: "/api/packages", handle: s.getPackages},
		{method: "GET", pattern: "/openapi.json", handle: s.getOpenAPI},
		{method: "GET", pattern: "/healthz", handle: s.getHealth},
		{method: "GET", pattern: "/readyz", handle: s.getReady},
	}
}

// Serve serves the connections of l until ctx ends. Then it stops as Drain and Grace say. With certificate files it serves
// TLS.
func (s *Server) Serve(ctx context.Context, l net.Listener, certFile, keyFile string) error {
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	if s.options.BehindProxy {
		h.IdleTimeout = proxyTime
	}
	s.bounds.Configure(h)
	l = s.bounds.Listener(l)
	if certFile != "" {
		c, err := certfile.Open(certFile, keyFile, s.log)
		if err != nil {
			return errors.Join(err, l.Close())
		}
		h.TLSConfig = &tls.Config{GetCertificate: c.Get}
	}
	sweeping, stop := context.WithCancel(ctx)
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		s.sweeps(sweeping)
	}()
	defer func() {
		stop()
		<-swept
	}()
	ended := make(chan error, 1)
	go func() {
		if certFile != "" {
			ended <- h.ServeTLS(l, "", "")
		} else {
			ended <- h.Serve(l)
		}
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.ending.Store(true)
	s.log.Info("ending", "drain", s.options.Drain, "grace", s.options.Grace)
	h.SetKeepAlivesEnabled(false)
	select {
	case err := <-ended:
		return err
	case <-time.After(s.options.Drain):
	}
	return s.shutDown(context.WithoutCancel(ctx), h, ended)
}

// shutDown closes the listener and returns when the running transfers are done or time out.
func (s *Server) shutDown(ctx context.Context, h *http.Server, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Grace)
	defer cancel()
	err := h.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("transfers were aborted", "after", s.options.Grace)
		err = h.Close()
	}
	if last := <-ended; !errors.Is(last, http.ErrServerClosed) {
		err = errors.Join(err, last)
	}
	return err
}

// Metrics serves /metrics for the operator, and the health checks. It is not for clients, because it shows the activity of others.
func (s *Server) Metrics() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.metrics.handler)
	for _, r := range s.routes() {
		if r.pattern == "/healthz" || r.pattern == "/readyz" {
			mux.Handle(r.method+" "+r.pattern, s.handler(r))
		}
	}
	return mux
}

// ServeMetrics serves Metrics. Its connections do not count as those of clients. Call stop to end it.
func (s *Server) ServeMetrics(l net.Listener) (stop func() error) {
	bounds := connlimit.New(connlimit.Options{PerClient: 16, All: 32, Log: s.log})
	h := &http.Server{Handler: bounds.Handler(s.Metrics()), ReadHeaderTimeout: headerTime, WriteTimeout: time.Minute, IdleTimeout: proxyTime, MaxHeaderBytes: maxHeader}
	bounds.Configure(h)
	go func() { _ = h.Serve(bounds.Listener(l)) }() // it ends when it is closed
	return h.Close
}

// Close closes the files that cached plans hold open.
func (s *Server) Close() error {
	s.plans.known.clear()
	return nil
}

func (s *Server) getHealth(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, "application/json", map[string]string{"status": "ok"})
	return nil
}

// getReady asks the store for a small value.
func (s *Server) getReady(w http.ResponseWriter, r *http.Request) error {
	if s.ending.Load() {
		return problem(http.StatusServiceUnavailable, "this server is shutting down; use another one")
	}
	// Requests at the same time share one request to the store.
	_, err := share(r.Context(), &s.plans.flight, "ready", func() (bool, error) {
		ctx, cancel := context.WithTimeout(s.plans.ctx, headerTime)
		defer cancel()
		return true, s.options.Packages.Reachable(ctx)
	})
	if r.Context().Err() != nil {
		return err // the client is gone
	}
	if err != nil {
		s.log.Warn("not ready", "error", err)
		return problem(http.StatusServiceUnavailable, "the store does not respond")
	}
	return s.getHealth(w, r)
}

//go:embed openapi.json
var openAPI []byte

func (s *Server) getOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI) // the client may be gone
	return nil
}
