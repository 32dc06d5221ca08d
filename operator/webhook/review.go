package webhook

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
)

// review is an AdmissionReview or a ConversionReview. Hooks get the request unchanged, so that fields of a later API are not
// lost.
type review struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Request    json.RawMessage `json:"request,omitempty"`
	Response   any             `json:"response,omitempty"`
}

// forHook is the value of the key review that a hook reads.
func (r *review) forHook() (json.RawMessage, error) {
	return json.Marshal(map[string]json.RawMessage{"request": r.Request})
}

// readReview reads a review, and its UID. It has answered the client if it returns nil.
func readReview(w http.ResponseWriter, req *http.Request, body []byte) (*review, types.UID) {
	if kind, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "send application/json", http.StatusUnsupportedMediaType)
		return nil, ""
	}
	var r review
	var request struct {
		UID types.UID `json:"uid"`
	}
	err := json.Unmarshal(body, &r)
	if err == nil {
		err = json.Unmarshal(r.Request, &request)
	}
	if err == nil && request.UID == "" {
		err = errors.New("request.uid is missing")
	}
	if err != nil {
		http.Error(w, "this is not a review: "+err.Error(), http.StatusBadRequest)
		return nil, ""
	}
	return &r, request.UID
}

// answer sends the review back with a response.
func (r *review) answer(w http.ResponseWriter, response any) {
	data, err := json.Marshal(review{APIVersion: r.APIVersion, Kind: r.Kind, Response: response})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}
