package cluster

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/kube"
)

// TestNodeIsAloneOnlyIfTheListSaysSo has an API server that answers everything but the list of nodes.
func TestNodeIsAloneOnlyIfTheListSaysSo(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	own := object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": "host-1"}}
	other := object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": "host-2"}}
	for name, row := range map[string]struct {
		nodes  []object // nil: the list fails
		worker bool
		alone  bool
	}{
		"the only node":              {[]object{own}, false, true},
		"one of two":                 {[]object{own, other}, false, false},
		"a list that does not come":  {nil, false, false},
		"a worker, which may not":    {nil, true, false},
		"the last one, already gone": {[]object{}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				answer := func(value any) { _ = json.NewEncoder(w).Encode(value) }
				switch path := r.URL.Path; {
				case path == "/api/v1":
					answer(metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "nodes", SingularName: "node", Kind: "Node", Verbs: metav1.Verbs{"get", "list"}}}})
				case path == "/api/v1/nodes/host-1":
					answer(own)
				case path == "/api/v1/nodes" && row.nodes != nil:
					answer(object{"apiVersion": "v1", "kind": "NodeList", "metadata": object{}, "items": row.nodes})
				case strings.HasSuffix(path, "/endpointslices/kubernetes"):
					answer(discoveryv1.EndpointSlice{TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}})
				default:
					http.Error(w, "etcdserver: request timed out", http.StatusInternalServerError)
				}
			}))
			defer server.Close()
			var output bytes.Buffer
			m := &Member{Node: "host-1", worker: row.worker, output: &output}
			var err error
			if m.cluster, err = kube.Connect(&rest.Config{Host: server.URL}, nil); err != nil {
				t.Fatal(err)
			}
			if m.typed, err = typedClient(m.cluster); err != nil {
				t.Fatal(err)
			}
			if err := m.look(t.Context()); err != nil {
				t.Fatal(err)
			}
			if m.Alone() != row.alone {
				t.Errorf("alone %t, with %v", m.Alone(), m.Others)
			}
			if said := strings.Contains(output.String(), "list the nodes"); said != (row.nodes == nil && !row.worker) {
				t.Errorf("said %q", &output)
			}
		})
	}
}
