package hub

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/sealift/sealift/fleet/conversion"
	"github.com/sealift/sealift/fleet/crd"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/reviews"
	"github.com/sealift/sealift/kube"
)

// maxReview bounds a webhook's request body: an API server sends a list of 500 objects at most. maxReviews bounds how many are
// answered at once; others wait. They are in memory, which has room for maxLarge of the greatest size.
const maxReview, maxReviews, maxLarge = 64 << 20, 16, 4

// readTime bounds how long a review may take to arrive.
const readTime = 10 * time.Second

// webhooks is the server of the hub's webhooks.
type webhooks struct {
	o        Options
	listener net.Listener
	mux      *http.ServeMux
	server   *http.Server
	ca       []byte
	cert     func(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

// listen serves the conversion. It runs before the definitions name it.
func listen(ctx context.Context, cluster *kube.Cluster, o Options) (*webhooks, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Webhook.Listen)
	if err != nil {
		return nil, err
	}
	w := &webhooks{o: o, listener: l, mux: http.NewServeMux()}
	if w.ca, w.cert, err = certificates(ctx, cluster, o, w.names()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	w.mux.HandleFunc("POST "+crd.ConversionPath, convert)
	bounds := newBounds(o.Log)
	w.server = &http.Server{Handler: bounds.Handler(w.mux), ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)} //nolint:gosec // bounds.Listener sets ReadHeaderTimeout
	bounded := bounds.Listener(w.server, l)
	go func() {
		err := w.server.Serve(tls.NewListener(bounded, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: w.cert, NextProtos: []string{"h2", "http/1.1"}}))
		if !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("the webhooks of the hub ended", "error", err)
		}
	}()
	return w, nil
}

// newBounds returns the bounds of the webhooks.
func newBounds(log *slog.Logger) *reviews.Bounds {
	return reviews.New(reviews.Limits{Body: maxReview, InMemory: maxLarge, AtOnce: maxReviews, Arrival: readTime, Log: log})
}

func (w *webhooks) close() { _ = w.server.Close() }

func (w *webhooks) address() string { return reachable(w.listener, w.o.Webhook.Host) }

// names are the names that the API server calls the hub by.
func (w *webhooks) names() []string {
	if s := w.o.Webhook.Service; s != "" {
		return []string{s + "." + w.o.Namespace + ".svc"}
	}
	host, _, err := net.SplitHostPort(w.address())
	if err != nil {
		return nil
	}
	return []string{host}
}

func (w *webhooks) conversion() crd.Conversion {
	c := crd.Conversion{Service: w.o.Webhook.Service, Namespace: w.o.Namespace, CA: w.ca}
	if c.Service == "" {
		c.URL = "https://" + w.address() + crd.ConversionPath
	}
	return c
}

func (w *webhooks) tlsOptions() []func(*tls.Config) {
	return []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = w.cert }}
}

// check reports whether the webhooks answer. It connects as an API server does.
func (w *webhooks) check(r *http.Request) error {
	roots, err := pool(w.ca)
	if err != nil {
		return err
	}
	d := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: w.names()[0], MinVersion: tls.VersionTLS12}}
	conn, err := d.DialContext(r.Context(), "tcp", w.listener.Addr().String())
	if err != nil {
		return err
	}
	return conn.Close()
}

// Webhook serves a handler under a path that begins with a slash, and returns how an API server reaches it.
func (h *Hub) Webhook(path string, handler http.Handler) admissionv1.WebhookClientConfig {
	h.webhooks.mux.Handle(path, handler)
	c := admissionv1.WebhookClientConfig{CABundle: h.webhooks.ca}
	if s := h.webhooks.o.Webhook.Service; s != "" {
		c.Service = &admissionv1.ServiceReference{Namespace: h.Namespace, Name: s, Path: &path, Port: new(int32(443))}
	} else {
		c.URL = new("https://" + h.webhooks.address() + path)
	}
	return c
}

// Keep does something on the hub that decides: at once, and again after each LeaseDuration. Each hub points the API server to itself when it
// starts, and may be gone when another one decides.
func (h *Hub) Keep(do func(context.Context) error) error {
	return h.Add(manager.RunnableFunc(func(ctx context.Context) error {
		var told poll.Told
		poll.Repeat(ctx, func(ctx context.Context) time.Duration {
			if err := do(ctx); told.IsNew(ctx, err) {
				h.Log.Error("the API server may not reach the webhooks of this hub", "error", err)
			}
			return h.every
		})
		return nil
	}))
}

// convert answers a ConversionReview. One object that cannot be converted fails the review, as the API demands.
func convert(w http.ResponseWriter, r *http.Request) {
	var review apiextensionsv1.ConversionReview
	if err := json.Unmarshal(reviews.Body(r), &review); err != nil || review.Request == nil {
		http.Error(w, "this is not a ConversionReview", http.StatusBadRequest)
		return
	}
	answer := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, in := range review.Request.Objects {
		out, err := convertOne(in, review.Request.DesiredAPIVersion)
		if err != nil {
			answer.ConvertedObjects = nil
			answer.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			break
		}
		answer.ConvertedObjects = append(answer.ConvertedObjects, out)
	}
	review.Request, review.Response = nil, answer
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the API server asks again
}

func convertOne(in runtime.RawExtension, version string) (runtime.RawExtension, error) {
	var object map[string]any
	if err := json.Unmarshal(in.Raw, &object); err != nil {
		return runtime.RawExtension{}, fmt.Errorf("convert an object: %w", err)
	}
	// an object of another group fails in Convert, which compares the whole apiVersion
	_, version, _ = strings.Cut(version, "/")
	out, err := conversion.Convert(object, version)
	if err != nil {
		return runtime.RawExtension{}, err
	}
	text, err := json.Marshal(out)
	return runtime.RawExtension{Raw: text}, err
}
