package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/binding"
)

const (
	validatingKind, mutatingKind = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"
	// configurationSuffix ends the names of both, as upstream's do.
	configurationSuffix = "-hooks"
)

// reviewVersions are the versions of reviews that we read.
func reviewVersions() []string { return []string{"v1", "v1beta1"} }

var (
	// errAwaited is the error of a missing object that another component creates.
	errAwaited = errors.New("it does not exist yet")
	// errUnchanged reports that an object needs no update.
	errUnchanged = errors.New("it is up to date")
)

// action is the change of an object.
type action int

const (
	leave action = iota
	await        // another component creates it
	put
	remove
)

// plain is a value as the maps and lists of an object.
func plain(value map[string]any) map[string]any {
	data, err := json.Marshal(value)
	out := map[string]any{}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		panic(err) // the types of an API become JSON, always
	}
	return out
}

// write corrects the objects, and reports whether all are correct, except for what the API server refuses.
func (e *endpoint) write(ctx context.Context, ca []byte) bool {
	all, objects := true, e.objects(ca)
	e.forget(objects)
	for _, o := range objects {
		err := e.writeGood(ctx, o)
		if errors.Is(err, errUnchanged) {
			continue // the refused part is
		}
		e.fail(o.ref, err)
		var refusals *refusalsError
		refused := errors.As(err, &refusals)
		e.logOnce(ctx, fmt.Sprintf("the API server refuses some webhooks of %s, and calls the other ones", o.ref), only(refused, err))
		all = e.logOnce(ctx, fmt.Sprintf("%s cannot be written yet, so the API server does not call hooks for it", o.ref), only(!refused, err)) && all
	}
	return all
}

// only returns err if is holds.
func only(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// sweep deletes the configurations of an earlier run whose hooks had webhooks. An operator without the right to read them has written none.
func (e *endpoint) sweep(ctx context.Context) {
	if e.server.options.Namespace == "" {
		return
	}
	if poll.Until(ctx, lookTime, nil, func(context.Context) (bool, error) { return e.server.leads(), nil }) != nil {
		return
	}
	if e.needed.Load() || e.Address() != "" {
		return // hooks with webhooks were added
	}
	for _, o := range e.objects(nil) {
		if o.with == nil || len(o.webhooks) > 0 {
			continue // they were added just now, and are not served yet
		}
		if err := e.writeOne(ctx, o); err != nil {
			e.server.log.DebugContext(ctx, "webhooks of an earlier run cannot be looked for", "object", o.ref.String(), "error", err)
		}
	}
}

// writeOne writes an object, unless it is as we have left it: that is errUnchanged.
func (e *endpoint) writeOne(ctx context.Context, o object) error {
	objects, err := e.server.options.Cluster.Objects(ctx, o.ref)
	if err != nil {
		return err
	}
	live, err := objects.Get(ctx, o.ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		live = nil
	} else if err != nil {
		return err
	}
	if live != nil && e.known[o.ref] == generation(live) {
		return errUnchanged
	}
	wanted, do := o.set(live)
	switch {
	case do == await:
		return errAwaited
	case do == leave:
		return nil
	case do == remove:
		uid := live.GetUID()
		if err := objects.Delete(ctx, o.ref.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	case live == nil:
		wanted, err = objects.Create(ctx, wanted, metav1.CreateOptions{})
	default:
		wanted, err = objects.Update(ctx, wanted, metav1.UpdateOptions{})
	}
	if err == nil {
		e.known[o.ref] = generation(wanted)
	}
	return err
}

// generation identifies the states of an object. Its status does not count.
func generation(o *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %d", o.GetUID(), o.GetGeneration())
}

// admissionObjects are the two configurations. One without webhooks is deleted if it is ours.
func (s *Server) admissionObjects(ca []byte) []object {
	admissions := s.routes.Load().admissions
	var validating, mutating []*admission
	for _, name := range slices.Sorted(maps.Keys(admissions)) {
		if a := admissions[name]; a.kind == binding.OnValidating {
			validating = append(validating, a)
		} else {
			mutating = append(mutating, a)
		}
	}
	return []object{s.configuration(validatingKind, validating, ca), s.configuration(mutatingKind, mutating, ca)}
}

// webhooks is the list of webhooks in a configuration.
func (s *Server) webhooks(all []*admission, ca []byte) any {
	list := make([]any, len(all))
	for i, a := range all {
		if a.kind == binding.OnValidating {
			list[i] = s.validating(a.binding, ca)
		} else {
			list[i] = s.mutating(a.binding, ca)
		}
	}
	return plain(map[string]any{"webhooks": list})["webhooks"]
}

func (s *Server) configuration(kind string, webhooks []*admission, ca []byte) object {
	ref := kube.Ref{Group: admissionregistration.GroupName, Version: "v1", Kind: kind, Name: s.options.ConfigurationName + configurationSuffix}
	set := func(live *unstructured.Unstructured) (*unstructured.Unstructured, action) {
		switch {
		case len(webhooks) == 0 && live != nil && s.leadsHere(live):
			return nil, remove
		case len(webhooks) == 0:
			return nil, leave
		}
		if live == nil {
			live = newConfiguration(kind)
			live.SetName(ref.Name)
		}
		live.Object["webhooks"] = s.webhooks(webhooks, ca)
		return live, put
	}
	return object{ref: ref, set: set, webhooks: webhooks, with: func(some []*admission) object { return s.configuration(kind, some, ca) }}
}

func newConfiguration(kind string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(admissionregistration.SchemeGroupVersion.String())
	o.SetKind(kind)
	return o
}

// leadsHere reports whether all webhooks of a configuration lead to our Service.
func (s *Server) leadsHere(live *unstructured.Unstructured) bool {
	webhooks, _, _ := unstructured.NestedSlice(live.Object, "webhooks")
	for _, one := range webhooks {
		fields, _ := one.(map[string]any)
		namespace, _, _ := unstructured.NestedString(fields, "clientConfig", "service", "namespace")
		name, _, _ := unstructured.NestedString(fields, "clientConfig", "service", "name")
		if namespace != s.options.Namespace || name != s.options.Admission.Service {
			return false
		}
	}
	return true
}

// conversionObjects are the CRDs. A missing one is not created here.
func (s *Server) conversionObjects(ca []byte) (all []object) {
	for _, crd := range slices.Sorted(maps.Keys(s.routes.Load().conversions)) {
		ref := kube.Ref{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: crd}
		all = append(all, object{ref: ref, set: func(live *unstructured.Unstructured) (*unstructured.Unstructured, action) {
			if live == nil {
				return nil, await
			}
			client := s.client(s.options.Conversion.Service, "/"+crd, ca)
			spec, ok := live.Object["spec"].(map[string]any)
			if !ok {
				return nil, await
			}
			spec["conversion"] = plain(map[string]any{
				"strategy": "Webhook",
				"webhook":  map[string]any{"clientConfig": client, "conversionReviewVersions": reviewVersions()},
			})
			return live, put
		}})
	}
	return all
}

func (s *Server) client(service, path string, ca []byte) admissionregistration.WebhookClientConfig {
	return admissionregistration.WebhookClientConfig{
		Service:  &admissionregistration.ServiceReference{Namespace: s.options.Namespace, Name: service, Path: &path},
		CABundle: ca,
	}
}

func (s *Server) validating(b *binding.Admission, ca []byte) admissionregistration.ValidatingWebhook {
	policy, match := s.policy(b), admissionregistration.Equivalent
	return admissionregistration.ValidatingWebhook{
		Name: b.Name, ClientConfig: s.client(s.options.Admission.Service, admissionPath+b.Name, ca), Rules: b.Rules,
		FailurePolicy: &policy, MatchPolicy: &match, NamespaceSelector: b.NamespaceLabels, ObjectSelector: b.Labels,
		SideEffects: &b.SideEffects, TimeoutSeconds: &b.Timeout, AdmissionReviewVersions: reviewVersions(), MatchConditions: b.Conditions,
	}
}

func (s *Server) mutating(b *binding.Admission, ca []byte) admissionregistration.MutatingWebhook {
	v := s.validating(b, ca)
	return admissionregistration.MutatingWebhook{
		Name: v.Name, ClientConfig: v.ClientConfig, Rules: v.Rules,
		FailurePolicy: v.FailurePolicy, MatchPolicy: v.MatchPolicy, NamespaceSelector: v.NamespaceSelector, ObjectSelector: v.ObjectSelector,
		SideEffects: v.SideEffects, TimeoutSeconds: v.TimeoutSeconds, AdmissionReviewVersions: v.AdmissionReviewVersions, MatchConditions: v.MatchConditions,
	}
}

func (s *Server) policy(b *binding.Admission) admissionregistration.FailurePolicyType {
	if b.FailurePolicy != nil {
		return *b.FailurePolicy
	}
	return s.options.FailurePolicy
}
