package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/hub"
)

// Paths of the admission.
const (
	defaultPath  = "/caaph/default"
	validatePath = "/caaph/validate"
)

// admit serves the admission webhook, and registers it with the API server (C-4 to C-6).
func admit(ctx context.Context, h *hub.Hub, schemes []string) error {
	fill := h.Webhook(defaultPath, review(fillIn))
	check := h.Webhook(validatePath, review(func(q *admissionv1.AdmissionRequest) ([]byte, error) { return nil, validate(q, schemes) }))
	rules := []registrationv1.RuleWithOperations{{
		Operations: []registrationv1.OperationType{registrationv1.Create, registrationv1.Update},
		Rule: registrationv1.Rule{
			APIGroups: []string{caaph.Version.Group}, APIVersions: []string{caaph.Version.Version},
			Resources: []string{"helmchartproxies", "helmreleaseproxies"},
		},
	}}
	const name = "sealift-fleet-caaph"
	objects := []client.Object{
		&registrationv1.MutatingWebhookConfiguration{
			TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []registrationv1.MutatingWebhook{{
				Name: "default.caaph.fleet.sealift.dev", ClientConfig: fill, Rules: rules, AdmissionReviewVersions: []string{"v1"},
				SideEffects: new(registrationv1.SideEffectClassNone), FailurePolicy: new(registrationv1.Fail), TimeoutSeconds: new(int32(10)),
			}},
		},
		&registrationv1.ValidatingWebhookConfiguration{
			TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []registrationv1.ValidatingWebhook{{
				Name: "validate.caaph.fleet.sealift.dev", ClientConfig: check, Rules: rules, AdmissionReviewVersions: []string{"v1"},
				SideEffects: new(registrationv1.SideEffectClassNone), FailurePolicy: new(registrationv1.Fail), TimeoutSeconds: new(int32(10)),
			}},
		},
	}
	apply := func(ctx context.Context) error {
		for _, o := range objects {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				return err
			}
			if err := register(ctx, h, &unstructured.Unstructured{Object: content}); err != nil {
				return fmt.Errorf("register the admission of HelmChartProxies: %w", err)
			}
		}
		return nil
	}
	return errors.Join(apply(ctx), h.Keep(apply))
}

// register applies the configuration of a webhook, unless it exists: a restarted hub writes nothing.
func register(ctx context.Context, h *hub.Hub, want *unstructured.Unstructured) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(want.GroupVersionKind())
	err := h.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(want), live)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	wanted, _, _ := unstructured.NestedSlice(want.Object, "webhooks")
	had, _, _ := unstructured.NestedSlice(live.Object, "webhooks")
	if len(wanted) == len(had) && equality.Semantic.DeepDerivative(wanted, had) { // the server adds defaults
		return nil
	}
	return h.GetClient().Apply(ctx, client.ApplyConfigurationFromUnstructured(want), client.ForceOwnership, client.FieldOwner(want.GetName()))
}

// review answers AdmissionReviews. What answer returns is the object as it should be, or nil to leave it.
func review(answer func(*admissionv1.AdmissionRequest) ([]byte, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Request == nil {
			http.Error(w, "this is not an AdmissionReview", http.StatusBadRequest)
			return
		}
		response := &admissionv1.AdmissionResponse{UID: q.Request.UID, Allowed: true}
		patch, err := answer(q.Request)
		if err != nil {
			response.Allowed = false
			response.Result = &metav1.Status{Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: err.Error()}
		} else if patch != nil {
			response.Patch, response.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
		}
		q.Request, q.Response = nil, response
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(q) // the API server asks again
	})
}

// fields are the fields of both kinds that admission reads.
type fields struct {
	Spec struct {
		caaph.Chart `json:",inline"`
	} `json:"spec"`
}

// fillIn returns the patch that adds defaults. It touches nothing else, so that fields that this program does not know
// stay.
func fillIn(q *admissionv1.AdmissionRequest) ([]byte, error) {
	var had, want fields
	var raw struct {
		Spec struct {
			Options map[string]any `json:"options"`
		} `json:"spec"`
	}
	for _, into := range []any{&had, &want, &raw} {
		if err := json.Unmarshal(q.Object.Raw, into); err != nil {
			return nil, err
		}
	}
	want.Spec.Default()
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	var patch []operation
	add := func(path string, value any) { patch = append(patch, operation{"add", path, value}) }
	if had.Spec.ReleaseNamespace == "" {
		add("/spec/namespace", want.Spec.ReleaseNamespace)
	}
	if raw.Spec.Options == nil {
		add("/spec/options", map[string]any{})
	}
	if had.Spec.Options.Wait != want.Spec.Options.Wait {
		add("/spec/options/wait", true)
	}
	if had.Spec.Options.Timeout == nil {
		add("/spec/options/timeout", want.Spec.Options.Timeout)
	}
	if len(patch) == 0 {
		return nil, nil
	}
	return json.Marshal(patch)
}

// validate refuses what cannot work. An object that is being deleted may be invalid.
func validate(q *admissionv1.AdmissionRequest, schemes []string) error {
	var now fields
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(q.Object.Raw, &now); err != nil {
		return err
	}
	if err := json.Unmarshal(q.Object.Raw, &o); err != nil {
		return err
	}
	if !o.DeletionTimestamp.IsZero() {
		return nil
	}
	if q.Operation == admissionv1.Update {
		var old fields
		if err := json.Unmarshal(q.OldObject.Raw, &old); err != nil {
			return err
		}
		old.Spec.Default() // it may be older than the admission
		now.Spec.Default()
		if q.Kind.Kind == "HelmChartProxy" {
			if err := caaph.ValidateChartUpdate(caaph.HelmChartProxySpec{Chart: old.Spec.Chart}, caaph.HelmChartProxySpec{Chart: now.Spec.Chart}); err != nil {
				return err
			}
		} else if err := caaph.ValidateReleaseUpdate(caaph.HelmReleaseProxySpec{Chart: old.Spec.Chart}, caaph.HelmReleaseProxySpec{Chart: now.Spec.Chart}); err != nil {
			return err
		}
	}
	return now.Spec.Validate(schemes)
}
