package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/reviews"
	"github.com/sealift/sealift/kube"
)

const (
	// lookTime is the pause between two checks of the certificate files.
	lookTime = time.Second
	// settleTime is how long the API server may take to trust a CA that is new in the objects. Until then the previous
	// certificate is shown.
	settleTime = 3 * time.Second
	// retryTime and keepTime are the pauses before the objects are looked at again: after a failure, and else.
	retryTime = 3 * time.Second
	keepTime  = time.Minute
	// readTime bounds how long a review may take to arrive.
	readTime = 15 * time.Second
	// parallel is how many hooks of an endpoint run at once. Further reviews wait. They are in memory, which has room for as many
	// of the greatest size as inMemory says.
	parallel = 64
	inMemory = 4
)

// answer answers a review, which was read from a request.
type answer func(w http.ResponseWriter, req *http.Request, body []byte)

// object is an object of the cluster that leads the API server to an endpoint.
type object struct {
	ref kube.Ref
	// set writes our fields into the object, which is nil if it does not exist, and returns what to do with it.
	set func(live *unstructured.Unstructured) (*unstructured.Unstructured, action)
	// webhooks are the admission webhooks in the object, in their order. with makes the object that has only some of them.
	webhooks []*admission
	with     func([]*admission) object
}

// endpoint serves HTTPS, and reconciles the objects that lead to it.
type endpoint struct {
	Endpoint

	server  *Server
	answer  answer
	objects func(ca []byte) []object
	bounds  *reviews.Bounds
	wake    chan struct{} // has a message when it is time to write the objects
	swept   sync.Once

	silentUntil atomic.Int64 // when to ask the leader again, in nanoseconds

	needed  atomic.Bool // hooks have webhooks of this endpoint
	opening sync.Mutex  // held by open
	trying  atomic.Bool // openLater is running

	mu       sync.Mutex
	listener net.Listener
	shown    atomic.Pointer[certificate]
	known    map[kube.Ref]string // the generations that we have written
	logged   map[string]bool     // errors that were logged already
	failed   map[kube.Ref]error  // errors of the API server; held by mu
	trust    trust
}

// newEndpoint makes an endpoint for reviews of up to size bytes.
func newEndpoint(s *Server, e Endpoint, size int64, answer answer, objects func([]byte) []object) *endpoint {
	return &endpoint{
		Endpoint: e, server: s, answer: answer, objects: objects, wake: make(chan struct{}, 1),
		bounds: reviews.New(reviews.Limits{Body: size, InMemory: inMemory, AtOnce: parallel, Arrival: readTime, Log: s.log}),
		known:  map[kube.Ref]string{}, logged: map[string]bool{}, failed: map[kube.Ref]error{},
	}
}

// Address is where the endpoint listens, or "".
func (e *endpoint) Address() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listener == nil {
		return ""
	}
	return e.listener.Addr().String()
}

// open begins to serve, if it does not yet.
func (e *endpoint) open() error {
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.Address() != "" {
		return nil
	}
	ctx := e.server.ctx
	load, err := e.source(ctx)
	if err != nil {
		return err
	}
	first, err := load()
	if err != nil {
		return err
	}
	e.shown.Store(first)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", e.Listen)
	if err != nil {
		return fmt.Errorf("serve webhooks: %w; choose another address or port", err)
	}
	e.mu.Lock()
	e.listener = listener
	e.mu.Unlock()
	server := &http.Server{ //nolint:gosec // the listener of reviews sets ReadHeaderTimeout
		Handler: e.limited(), ErrorLog: slog.NewLogLogger(e.server.log.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return e.shown.Load().config, nil
		}},
	}
	e.server.log.InfoContext(ctx, "webhooks are served", "address", listener.Addr().String(), "service", e.Service)
	bounded := e.bounds.Listener(server, listener)
	e.server.running.Go(func() { _ = server.ServeTLS(bounded, "", "") })
	e.server.running.Go(func() {
		e.keep(ctx, load)
		_ = server.Close()
	})
	return nil
}

// openLater opens the endpoint as soon as that succeeds, such as when the API server is back.
func (e *endpoint) openLater() {
	if e.trying.Swap(true) {
		return
	}
	e.server.running.Go(func() {
		defer e.trying.Store(false)
		ctx := e.server.ctx
		if poll.Pause(ctx, retryTime) != nil || poll.Until(ctx, retryTime, nil, poll.Success(func(context.Context) error { return e.open() })) != nil {
			return
		}
		e.register()
	})
}

// limited is a handler with as many concurrent reviews as there are slots.
func (e *endpoint) limited() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	answer := e.leaderFirst(e.answer)
	mux.HandleFunc("POST /", func(w http.ResponseWriter, req *http.Request) { answer(w, req, reviews.Body(req)) })
	return e.bounds.Handler(mux)
}

// register asks keep to write the objects soon.
func (e *endpoint) register() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// keep holds the objects and the certificate right until ctx ends.
func (e *endpoint) keep(ctx context.Context, load func() (*certificate, error)) {
	ticker := time.NewTicker(lookTime)
	defer ticker.Stop()
	var due time.Time
	led := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
			clear(e.known)
			due = time.Time{}
		case <-ticker.C:
		}
		fresh, err := load()
		if shown := e.shown.Load(); e.logOnce(ctx, "the certificate of webhooks cannot be renewed; the previous one is kept", err) && fresh.sum != shown.sum {
			if e.rotate(ctx, shown, fresh) {
				due = time.Time{}
			}
		}
		if e.trust.end() {
			clear(e.known)
			due = time.Time{}
		}
		leads := e.server.leads()
		if leads && !led {
			e.inherit(ctx)
		}
		if led = leads; !leads || time.Now().Before(due) {
			continue
		}
		if due = time.Now().Add(keepTime); !e.write(ctx, e.trust.with(e.shown.Load().ca)) {
			due = time.Now().Add(retryTime)
		}
	}
}

// rotate shows another certificate, and reports whether it did. The API server trusts both CAs while it changes, so no review fails:
// that the leader has written the new one is waited for.
func (e *endpoint) rotate(ctx context.Context, before, after *certificate) bool {
	changed := string(before.ca) != string(after.ca)
	if changed {
		if !e.trust.due(after) {
			return false
		}
		e.trust.keep(joined(before.ca, after.ca))
		clear(e.known)
		if e.server.leads() {
			e.write(ctx, e.trust.with(after.ca))
		}
		if !e.trusted(ctx, after.ca) && !e.trust.overdue() || poll.Pause(ctx, settleTime) != nil {
			return false
		}
	}
	e.shown.Store(after)
	e.server.log.InfoContext(ctx, "webhooks have a new certificate", "service", e.Service)
	if changed {
		_ = poll.Pause(ctx, settleTime) // connections that began before show the old one
	}
	if e.server.options.Leader == nil {
		e.trust.others = nil // nobody else shows the old one
	}
	clear(e.known)
	return true
}

// logOnce logs an error once, until it is gone. It reports whether there is none.
func (e *endpoint) logOnce(ctx context.Context, text string, err error) bool {
	if err == nil {
		delete(e.logged, text)
		return true
	}
	if !e.logged[text] && ctx.Err() == nil {
		e.logged[text] = true
		e.server.log.ErrorContext(ctx, text, "service", e.Service, "error", err)
	}
	return false
}
