// Package webhook lets hooks answer the API server: a hook allows, refuses or changes a write (S-15), or converts custom
// resources between versions (S-16).
//
// A Server has up to two HTTPS servers, one for admission and one for conversion. It writes the objects that make the API
// server call them, and repairs them when certificates or the objects change. It runs no hooks itself: a Hook brings a function
// for that. The package knows neither modules nor queues.
package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	admissionregistration "k8s.io/api/admissionregistration/v1"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/binding"
)

// Hook is a hook that answers reviews: one of shell mode, a global one, or one of a module.
type Hook struct {
	Name   string
	Config *binding.Config
	// Run runs the hook for one review and returns its response: $ADMISSION_RESPONSE_PATH, or $CONVERSION_RESPONSE_PATH for a
	// conversion. It is called by many goroutines. When ctx ends, the hook must end. If it cannot answer before that, the error may be
	// ErrNoTime at once.
	Run func(ctx context.Context, c binding.Context) (answer []byte, err error)
}

// ErrNoTime is the error of a hook that cannot answer in time. It counts as one that did not: the failure policy decides.
var ErrNoTime = errors.New("it cannot answer in time")

// Options of a Server.
type Options struct {
	Cluster *kube.Cluster
	Log     *slog.Logger // nil is silence
	// Namespace is where the Services of the endpoints are.
	Namespace             string
	Admission, Conversion Endpoint
	// ConfigurationName begins the name of the ValidatingWebhookConfiguration and the MutatingWebhookConfiguration. The rest
	// of the name is "-hooks".
	ConfigurationName string
	// FailurePolicy is that of bindings without one. Default: Fail.
	FailurePolicy admissionregistration.FailurePolicyType
	// Leads reports whether this operator writes the objects that lead the API server here. Nil means that it always does.
	Leads func() bool
	// Leader returns the address of the operator that answers instead of this one, or "". Nil means none.
	Leader func(context.Context) string
}

// Endpoint is one HTTPS server, and the Service that leads to it.
type Endpoint struct {
	Listen  string // address and port
	Service string // the name of a Service, whose port 443 leads to Listen
	// CertFile, KeyFile and CAFile hold the certificate of the server, its key, and the CA for the API server to trust.
	// They are read again when they change. If CertFile is "", an authority of our own issues a certificate. Its key is in a
	// Secret named as the Service with "-authority".
	CertFile, KeyFile, CAFile string
	// ClientCAFiles hold the CAs of clients. If there are some, a client without a certificate of theirs is refused.
	ClientCAFiles []string
}

// Server answers reviews.
type Server struct {
	options               Options
	log                   *slog.Logger
	ctx                   context.Context // of both endpoints, which outlast the call that opens them
	admission, conversion *endpoint
	routes                atomic.Pointer[routes]
	running               sync.WaitGroup
	doubled               atomic.Pointer[error] // webhooks of one name
}

// routes is which hook answers what.
type routes struct {
	admissions  map[string]*admission    // by the name of the webhook
	conversions map[string][]*conversion // the steps of a CRD, by its name
}

// New prepares a server that works until ctx ends. It opens nothing yet.
func New(ctx context.Context, o Options) *Server {
	o.FailurePolicy = cmp.Or(o.FailurePolicy, admissionregistration.Fail)
	s := &Server{options: o, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)), ctx: ctx}
	s.routes.Store(&routes{})
	s.admission = newEndpoint(s, o.Admission, admissionSize, s.admit, s.admissionObjects)
	s.conversion = newEndpoint(s, o.Conversion, conversionSize, s.convert, s.conversionObjects)
	return s
}

// Set serves the webhooks of these hooks and of no others. It opens the endpoints that they need. The objects in the cluster
// follow soon, and are tried again until they are right. Set may be called again with other hooks.
//
// After an error the other webhooks are served: of two with one name the first, and those of an endpoint that opens. The other
// endpoint is tried again until the context of New ends.
func (s *Server) Set(hooks []Hook) error {
	r, err := route(hooks)
	errs := []error{err}
	if s.options.Namespace == "" && len(r.admissions)+len(r.conversions) > 0 {
		return errors.New("hooks have webhooks, but the namespace of the operator is unknown; give --namespace")
	}
	s.routes.Store(r)
	s.doubled.Store(&err)
	for _, one := range []struct {
		*endpoint

		needed bool
	}{{s.admission, len(r.admissions) > 0}, {s.conversion, len(r.conversions) > 0}} {
		one.endpoint.needed.Store(one.needed)
		if !one.needed && one.Address() == "" {
			one.swept.Do(func() { s.running.Go(func() { one.sweep(s.ctx) }) })
			continue
		}
		if err := one.open(); err != nil {
			errs = append(errs, err)
			one.openLater()
			continue
		}
		one.register()
	}
	return errors.Join(errs...)
}

// leads reports whether the objects are ours to write.
func (s *Server) leads() bool { return s.options.Leads == nil || s.options.Leads() }

// Wait returns after the end of the context of New, when nothing is served any longer.
func (s *Server) Wait() { s.running.Wait() }

// route finds who answers what. Two webhooks of one name are an error: they would have the same path.
func route(hooks []Hook) (*routes, error) {
	r := &routes{admissions: map[string]*admission{}, conversions: map[string][]*conversion{}}
	var errs []error
	for i := range hooks {
		h := &hooks[i]
		add := func(t binding.Type, all []binding.Admission) {
			for j := range all {
				b := &all[j]
				if other := r.admissions[b.Name]; other != nil {
					errs = append(errs, fmt.Errorf("hook %s: %s[%d].name: hook %s also has a webhook %s; give them different names", h.Name, t, j, other.hook.Name, b.Name))
					continue
				}
				r.admissions[b.Name] = &admission{h, t, j, b}
			}
		}
		add(binding.OnValidating, h.Config.Validating)
		add(binding.OnMutating, h.Config.Mutating)
		for j := range h.Config.Conversions {
			b := &h.Config.Conversions[j]
			for _, step := range b.Steps {
				r.conversions[b.CRD] = append(r.conversions[b.CRD], &conversion{h, b, step})
			}
		}
	}
	return r, errors.Join(errs...)
}
