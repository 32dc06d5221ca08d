package channel

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

func TestHealthFollowsKOps(t *testing.T) {
	data, err := os.ReadFile("testdata/kops-health.json")
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		Cases []struct {
			Name    string
			Object  map[string]any
			Healthy bool
		}
	}
	if err := json.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	for _, tt := range table.Cases {
		t.Run(tt.Name, func(t *testing.T) {
			if why := unhealthyReason(&unstructured.Unstructured{Object: tt.Object}); (why == "") != tt.Healthy {
				t.Errorf("illness is %q, healthy should be %v", why, tt.Healthy)
			}
		})
	}
	t.Run("an object that is being deleted", func(t *testing.T) {
		obj := &unstructured.Unstructured{}
		now := metav1.Now()
		obj.SetDeletionTimestamp(&now)
		if unhealthyReason(obj) == "" {
			t.Error("it counts as healthy")
		}
	})
}

func testUnhealthyLooksOnce(p *playground) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: ill, namespace: kube-system}\nspec: {containers: [{name: c, image: i}]}\n"
	objs, err := render.Decode(strings.NewReader(configMap("well", "1") + "---\n" + configMap("gone", "1") + "---\n" + pod))
	if err != nil {
		p.Fatal(err)
	}
	for _, obj := range []*unstructured.Unstructured{objs[0], objs[2]} {
		if _, err := p.objects(kube.RefOf(obj)).Create(p.Context(), obj, metav1.CreateOptions{}); err != nil {
			p.Fatal(err)
		}
	}
	status := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Crashed"}]}}`)
	if _, err := p.objects(kube.Ref{Version: "v1", Kind: "Pod"}).Patch(p.Context(), "ill", types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		p.Fatal(err)
	}
	ill, err := p.cluster.unhealthy(p.Context(), objs)
	if err != nil {
		p.Fatal(err)
	}
	var got []string
	for _, err := range ill {
		got = append(got, err.Error())
	}
	want := []string{"ConfigMap/kube-system/gone: it does not exist", "Pod/kube-system/ill: condition Ready is False: Crashed"}
	if diff := cmp.Diff(want, got); diff != "" {
		p.Error(diff)
	}
}
