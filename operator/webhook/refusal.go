package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/kube"
)

// checkTime bounds how long Check asks the API server.
const checkTime = 20 * time.Second

// refusalsError holds the API server's refusals, by hook and key.
type refusalsError struct{ error }

func (e *refusalsError) Unwrap() error { return e.error }

// refuses reports whether a retry would get the same answer of the API server.
func refuses(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) }

// Check asks the API server in dry runs whether it accepts the admission webhooks of these hooks. The error names hook and key
// of each that it refuses. If it cannot be asked now, they count as accepted; Err reports a refusal when it is written.
func (s *Server) Check(ctx context.Context, hooks []Hook) error {
	r, err := route(hooks)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	asked := &Server{options: s.options}
	asked.routes.Store(r)
	var all []error
	for _, o := range asked.admissionObjects(nil) {
		if len(o.webhooks) == 0 {
			continue
		}
		err := asked.dryRun(ctx, o)
		s.log.DebugContext(ctx, "the API server was asked about webhooks", "object", o.ref.String(), "error", err)
		if apierrors.IsInvalid(err) {
			_, refusals := o.split(err)
			all = append(all, refusals...)
		}
	}
	return errors.Join(all...)
}

// dryRun creates an object under an unused name, and changes nothing.
func (s *Server) dryRun(ctx context.Context, o object) error {
	objects, err := s.options.Cluster.Objects(ctx, o.ref)
	if err != nil {
		return err
	}
	wanted := newConfiguration(o.ref.Kind)
	wanted.SetGenerateName(o.ref.Name + "-check-")
	wanted.Object["webhooks"] = s.webhooks(o.webhooks, nil)
	_, err = objects.Create(ctx, wanted, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// inWebhook matches the field of a cause inside a webhook.
var inWebhook = regexp.MustCompile(`^webhooks\[(\d+)\]\.?(.*)$`)

// split reads a refusal of the API server. It returns the webhooks that are not named in it, and for each cause inside a
// webhook an error that names its hook and the key of its configuration.
func (o object) split(err error) (good []*admission, refusals []error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return o.webhooks, nil
	}
	good = slices.Clone(o.webhooks)
	for _, cause := range status.Status().Details.Causes {
		found := inWebhook.FindStringSubmatch(cause.Field)
		if found == nil {
			continue
		}
		i, err := strconv.Atoi(found[1])
		if err != nil || i >= len(o.webhooks) {
			continue
		}
		good[i] = nil
		a := o.webhooks[i]
		refusals = append(refusals, fmt.Errorf("hook %s: %s[%d].%s: the API server refuses it: %s", a.hook.Name, a.kind, a.index, configKey(found[2]), cause.Message))
	}
	return slices.DeleteFunc(good, func(a *admission) bool { return a == nil }), refusals
}

// configKey is the key in a hook's configuration for a field of a webhook.
func configKey(field string) string {
	for name, key := range map[string]string{"namespaceSelector": "namespace.labelSelector", "objectSelector": "labelSelector"} {
		if below, ok := strings.CutPrefix(field, name); ok {
			return key + below
		}
	}
	return field
}

// writeGood writes an object. If the API server refuses webhooks in it, it writes the other ones, and the error is a refusalsError.
func (e *endpoint) writeGood(ctx context.Context, o object) error {
	var refusals []error
	for {
		err := e.writeOne(ctx, o)
		if !refuses(err) || o.with == nil {
			if len(refusals) == 0 {
				return err
			}
			if err != nil {
				return errors.Join(append(refusals, err)...)
			}
			return &refusalsError{errors.Join(refusals...)}
		}
		good, named := o.split(err)
		if len(named) == 0 {
			return errors.Join(append(refusals, err)...)
		}
		refusals = append(refusals, named...)
		o = o.with(good)
	}
}

// fail records why the API server refuses an object. What it may take later is nothing to remember.
func (e *endpoint) fail(ref kube.Ref, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var refusals *refusalsError
	if errors.As(err, &refusals) || refuses(err) || apierrors.IsForbidden(err) {
		e.failed[ref] = err
	} else {
		delete(e.failed, ref)
	}
}

// forget drops the refusals of objects that no hook needs any longer.
func (e *endpoint) forget(others []object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.failed, func(ref kube.Ref, _ error) bool {
		return !slices.ContainsFunc(others, func(o object) bool { return o.ref == ref })
	})
}

// Err returns why the API server does not call all hooks, by hook and key where they are known. It returns nil if nothing is known to be wrong.
func (s *Server) Err() error {
	var all []error
	if err := s.doubled.Load(); err != nil {
		all = append(all, *err)
	}
	for _, e := range []*endpoint{s.admission, s.conversion} {
		if e.needed.Load() && e.Address() == "" {
			all = append(all, fmt.Errorf("webhooks are not served on %s; the log has the reason", e.Listen))
		}
		e.mu.Lock()
		for _, ref := range slices.SortedFunc(maps.Keys(e.failed), func(a, b kube.Ref) int { return strings.Compare(a.String(), b.String()) }) {
			all = append(all, fmt.Errorf("%s: %w", ref, e.failed[ref]))
		}
		e.mu.Unlock()
	}
	return errors.Join(all...)
}
