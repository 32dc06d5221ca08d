package upgrade

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/cluster"
)

// TestRemovedNodeHasNoRequest withdraws the requests to a node that is there, to one that has left, and to one that nobody may change.
func TestRemovedNodeHasNoRequest(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := func(code int, value any) {
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(value)
		}
		refuse := func(code int, reason metav1.StatusReason) {
			answer(code, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code)})
		}
		switch r.Method + " " + r.URL.Path {
		case "GET /api/v1":
			answer(http.StatusOK, metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "nodes", SingularName: "node", Kind: "Node", Verbs: metav1.Verbs{"get", "patch"}}}})
		case "PATCH /api/v1/nodes/there":
			answer(http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "there"}})
		case "PATCH /api/v1/nodes/left":
			refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
		default:
			refuse(http.StatusForbidden, metav1.StatusReasonForbidden)
		}
	}))
	defer server.Close()
	view, err := cluster.ViewOf(&rest.Config{Host: server.URL}, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]bool{"there": false, "left": false, "other": true} {
		if err := withdraw(t.Context(), view, name); (err != nil) != refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
