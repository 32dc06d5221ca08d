package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/operator/binding"
)

const (
	// admissionPath begins the path of an admission webhook. Its name is the rest.
	admissionPath = "/hooks/"
	// admissionSize bounds an AdmissionReview: an object, the old one, and some space for the rest. The API server takes objects
	// of 3 MiB.
	admissionSize = 16 << 20
)

// admission is a webhook that allows, refuses or changes.
type admission struct {
	hook    *Hook
	kind    binding.Type
	index   int // among the bindings of its kind
	binding *binding.Admission
}

// verdict is a hook's response in $ADMISSION_RESPONSE_PATH.
type verdict struct {
	Allowed  bool     `json:"allowed"`
	Message  string   `json:"message"`
	Code     int32    `json:"code"` // of the refusal; default 403
	Warnings []string `json:"warnings"`
	Patch    []byte   `json:"patch"` // a JSON patch, in base64
}

// admit answers an AdmissionReview.
func (s *Server) admit(w http.ResponseWriter, req *http.Request, body []byte) {
	a := s.routes.Load().admissions[strings.TrimPrefix(req.URL.Path, admissionPath)]
	if a == nil {
		http.NotFound(w, req)
		return
	}
	r, uid := readReview(w, req, body)
	if r == nil {
		return
	}
	// The API server waits that long, and then applies the failure policy. The hook is stopped then, too.
	limit := time.Duration(a.binding.Timeout) * time.Second
	ctx, cancel := context.WithTimeoutCause(req.Context(), limit, fmt.Errorf("it did not answer within %s", limit))
	defer cancel()
	response := s.judge(ctx, a, r)
	if response == nil || ctx.Err() != nil { // The API server may still wait. Without a response it applies the failure policy.
		http.Error(w, "the hook did not answer in time", http.StatusGatewayTimeout)
		return
	}
	response.UID = uid
	r.answer(w, response)
}

// judge asks the hook. It returns nil if the hook does not answer before ctx ends.
func (s *Server) judge(ctx context.Context, a *admission, r *review) *admissionv1.AdmissionResponse {
	request, err := r.forHook()
	if err != nil {
		return refusal(http.StatusBadRequest, err.Error())
	}
	b := a.binding
	written, err := a.hook.Run(ctx, binding.Context{Type: a.kind, Binding: b.Name, Group: b.Group, Include: b.Include, Review: request})
	if ctx.Err() != nil || errors.Is(err, ErrNoTime) {
		s.log.ErrorContext(ctx, "the failure policy decides on a request because its hook did not answer in time", "webhook", b.Name, "hook", a.hook.Name, "error", err)
		return nil
	}
	if err != nil {
		s.log.ErrorContext(ctx, "a request is refused because its hook failed", "webhook", b.Name, "hook", a.hook.Name, "error", err)
		return refusal(http.StatusForbidden, "Hook failed")
	}
	v, err := parseVerdict(written)
	if err != nil {
		err = fmt.Errorf("hook %s: %w", a.hook.Name, err)
		s.log.ErrorContext(ctx, "a request is refused because its hook gave no usable answer", "webhook", b.Name, "hook", a.hook.Name, "error", err)
		return refusal(http.StatusInternalServerError, err.Error())
	}
	response := &admissionv1.AdmissionResponse{Allowed: true}
	if !v.Allowed {
		response = refusal(cmp.Or(v.Code, http.StatusForbidden), v.Message)
	}
	response.Warnings = v.Warnings
	if len(v.Patch) > 0 && a.kind == binding.OnMutating {
		kind := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = v.Patch, &kind
	}
	return response
}

// parseVerdict reads the answer of a hook: the first document that it wrote, as upstream does. Without the key allowed it refuses.
func parseVerdict(written []byte) (*verdict, error) {
	if len(bytes.TrimSpace(written)) == 0 {
		return nil, errors.New("it wrote nothing to $ADMISSION_RESPONSE_PATH; write {\"allowed\": true} or {\"allowed\": false, \"message\": \"…\"}")
	}
	v := verdict{Message: "what it wrote to $ADMISSION_RESPONSE_PATH does not allow this, and has no message"}
	if err := json.NewDecoder(bytes.NewReader(written)).Decode(&v); err != nil {
		return nil, fmt.Errorf("its response in $ADMISSION_RESPONSE_PATH is invalid: %w", err)
	}
	if v.Code != 0 && (v.Code < 400 || v.Code > 599) {
		return nil, fmt.Errorf("its response in $ADMISSION_RESPONSE_PATH has the code %d; a refusal has one from 400 to 599", v.Code)
	}
	var operations []json.RawMessage
	if err := json.Unmarshal(v.Patch, &operations); len(v.Patch) > 0 && err != nil {
		return nil, fmt.Errorf("the patch in $ADMISSION_RESPONSE_PATH is not a list of operations: %w", err)
	}
	return &v, nil
}

func refusal(code int32, message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: code, Message: message}}
}
