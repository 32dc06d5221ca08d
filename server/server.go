// Package server gives Installers, scripts and bundles to whoever asks by HTTP. It keeps nothing: Installers are objects in the
// store beside the packages, bundles are made of ranges of packages while they are sent, and every replica in front of the
// same store gives the same bytes.
//
// The package never builds a package, never runs anything, and sends no request to an address that an Installer names, unless
// its operator allows that address.
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

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/server/airgap"
	"github.com/sealift/sealift/server/page"
	"github.com/sealift/sealift/store"
)

// Options says what is served. Packages, Binary and Platform are needed.
type Options struct {
	Packages airgap.Packages // also where Installers are kept
	// Binary is the sealift for the nodes, and Platform the platform it was built for, such as linux/amd64.
	Binary   *bundle.Member
	Platform string
	// Preflight is the sealift-preflight that bundles carry; nil leaves it out, and with it the checks of add-ons.
	Preflight *bundle.Member
	// Commands are those of that sealift which scripts may start: install, join, upgrade.
	Commands []string
	// URL is how clients reach the server, such as https://sealift.example.com; empty: as the request says.
	URL string
	// Token is what a request must bear to give an Installer a name; empty: nobody can.
	Token string
	// Closed says that the token is needed for every Installer, not only for those with a name.
	Closed bool
	// Redirect lets clients fetch single packages from the store itself, where it can give out URLs for that.
	Redirect bool
	// Key signs the indexes of bundles, if it is not nil.
	Key *signature.Key
	// Rate is how many requests a client may make in a second, in the long run; 0 means 50. For a short time it may be four
	// times as many. A range of a bundle counts a tenth.
	Rate float64
	// MaxPerClient is how many Installers without a name a client may store in a day without the token; 0 means 100.
	MaxPerClient int
	// MaxInstallers is how many Installers without a name the store may have before the token is needed; 0 means 10,000.
	MaxInstallers int
	// Expire is after what time Installers without a name are removed that nobody has used; 0 keeps them.
	Expire time.Duration
	// BehindProxy says that the last address of X-Forwarded-For is the client's.
	BehindProxy bool
	// Drain is how long connections are still taken when the server is told to end. Meanwhile /readyz says that it is not
	// ready, so that a load balancer sends clients elsewhere.
	Drain time.Duration
	// Grace is how long transfers may go on after that; 0 means 30 seconds.
	Grace time.Duration
	Log   *slog.Logger // nil means to log nothing
}

// Server answers requests.
type Server struct {
	options Options
	mux     *http.ServeMux
	plans   *plans
	limits  *limits
	metrics *metrics
	buffers *buffers
	turns   *turns // of clients to have their Installers and forms worked on
	log     *slog.Logger

	store      store.Store // without what is remembered of it
	quota      *quota
	used       *memory[time.Time] // when Installers were last noted as used, by id
	documents  *memory[*document]
	catalogues *memory[*catalogue]

	crossOrigin *http.CrossOriginProtection
	ending      atomic.Bool
}

// The patience with clients.
const (
	headerTime = 10 * time.Second // for the header of a request
	bodyTime   = 30 * time.Second // for its body
	stallTime  = time.Minute      // for the next piece of an answer to be taken
	idleTime   = 2 * time.Minute  // for the next request
	maxHeader  = 32 << 10         // bytes
)

// New makes a server. Plans of bundles that it remembers read the store until ctx ends.
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
	if o.URL != "" {
		u, err := url.Parse(o.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || !plainHost.MatchString(u.Host) || !plainPath.MatchString(u.Path) {
			return nil, fmt.Errorf("%q is not the URL of a server, such as https://sealift.example.com", o.URL)
		}
		o.URL = strings.TrimSuffix(o.URL, "/")
	}
	inner := o.Packages.Store
	o.Packages.Store = newListings(ctx, inner)
	s := &Server{
		store: inner, quota: newQuota(o), used: newMemory[time.Time](maxUsed, nil),
		options: o, log: o.Log, limits: requestLimits(o.Rate), metrics: newMetrics(), turns: newTurns(maxTexts), buffers: newBuffers(), crossOrigin: http.NewCrossOriginProtection(),
		documents: newMemory[*document](maxDocuments, nil), catalogues: newMemory[*catalogue](maxCatalogues, nil),
	}
	if o.URL != "" { // a proxy in front may change the Host that an Origin is compared with
		u, _ := url.Parse(o.URL)
		if err := s.crossOrigin.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
			return nil, fmt.Errorf("%q is not the URL of a server: %w", o.URL, err)
		}
	}
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

// route is one thing that can be asked for. Every handler returns what went wrong before it has answered anything.
type route struct {
	method  string // GET stands for HEAD, too
	pattern string
	handle  func(w http.ResponseWriter, r *http.Request) error
	audited bool // whether it may change something
	page    bool // whether it makes a page, which takes a turn
}

func (s *Server) routes() []route {
	return []route{
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

// Serve answers the connections of l until ctx ends, and then goes on as Drain and Grace say. With files for a certificate it
// speaks TLS.
func (s *Server) Serve(ctx context.Context, l net.Listener, certFile, keyFile string) error {
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	if certFile != "" {
		c, err := openCertificate(certFile, keyFile, s.log)
		if err != nil {
			return errors.Join(err, l.Close())
		}
		h.TLSConfig = &tls.Config{GetCertificate: c.get}
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

// shutDown takes no more connections, and ends when the transfers that run have, or have had their time.
func (s *Server) shutDown(ctx context.Context, h *http.Server, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Grace)
	defer cancel()
	err := h.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("transfers were cut off", "after", s.options.Grace)
		err = h.Close()
	}
	if last := <-ended; !errors.Is(last, http.ErrServerClosed) {
		err = errors.Join(err, last)
	}
	return err
}

// Metrics answers /metrics, for those who run the server. Clients have no business with it: it tells what others do.
func (s *Server) Metrics() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.metrics.handler)
	return mux
}

// Close closes what remembered plans hold open.
func (s *Server) Close() error {
	s.plans.known.clear()
	return nil
}

func (s *Server) getHealth(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, "application/json", map[string]string{"status": "ok"})
	return nil
}

// getReady asks the store for something small.
func (s *Server) getReady(w http.ResponseWriter, r *http.Request) error {
	if s.ending.Load() {
		return problem(http.StatusServiceUnavailable, "this server is about to end; ask another one")
	}
	ctx, cancel := context.WithTimeout(r.Context(), headerTime)
	defer cancel()
	if err := s.options.Packages.Reachable(ctx); err != nil {
		s.log.Warn("not ready", "error", err)
		return problem(http.StatusServiceUnavailable, "the store does not answer")
	}
	return s.getHealth(w, r)
}

//go:embed openapi.json
var openAPI []byte

func (s *Server) getOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI) // a client that has gone gets nothing
	return nil
}
