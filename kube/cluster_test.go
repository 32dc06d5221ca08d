package kube_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
)

func TestClusterReadsPatchesAndWritesStatus(t *testing.T) {
	c := newCluster(t)
	deployments, err := c.Objects(t.Context(), kube.Ref{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: c.ns})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := deployments.Create(t.Context(), c.objects(webDeployment)[0], metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := deployments.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	live, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	setField(int64(2), "status", "replicas")(live.Object)
	setField(int64(9), "spec", "replicas")(live.Object)
	if _, err := deployments.UpdateStatus(t.Context(), live, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	list, err := deployments.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatal(len(list.Items), err)
	}
	for field, want := range map[string]int64{"spec": 3, "status": 2} {
		if got, _, _ := unstructured.NestedInt64(list.Items[0].Object, field, "replicas"); got != want {
			t.Errorf("%s.replicas is %d, want %d", field, got, want)
		}
	}
}

// TestWatchOutlastsTimeout: requests end after the timeout of the configuration; a watch does not.
func TestWatchOutlastsTimeout(t *testing.T) {
	c := newCluster(t)
	cfg := shared.Config(t)
	cfg.Timeout = time.Second
	cluster := connect(t, cfg)
	ref := kube.Ref{Version: "v1", Kind: "ConfigMap", Namespace: c.ns}
	full, err := cluster.Objects(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := cluster.Metadata(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	ofFull, err := full.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer ofFull.Stop()
	ofMetadata, err := metadata.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer ofMetadata.Stop()
	time.Sleep(2 * cfg.Timeout)
	c.create(configMapOf("late", "1"))
	full2 := <-ofFull.ResultChan()
	if obj, ok := full2.Object.(*unstructured.Unstructured); !ok || obj.GetName() != "late" {
		t.Errorf("the watch of objects gives %v", full2)
	}
	meta2 := <-ofMetadata.ResultChan()
	if obj, ok := meta2.Object.(*metav1.PartialObjectMetadata); !ok || obj.Name != "late" {
		t.Errorf("the watch of metadata gives %v", meta2)
	}
}

func TestUnservedKindIsReported(t *testing.T) {
	c := newCluster(t)
	for _, ref := range []kube.Ref{{Group: "example.org", Version: "v1", Kind: "Nothing"}, {Version: "v1", Kind: "Nothing"}} {
		_, err := c.Objects(t.Context(), ref)
		if !meta.IsNoMatchError(err) || !strings.Contains(err.Error(), "the cluster does not serve kind Nothing") {
			t.Errorf("objects of %v: %v", ref, err)
		}
		if _, err = c.Metadata(t.Context(), ref); !meta.IsNoMatchError(err) {
			t.Errorf("metadata of %v: %v", ref, err)
		}
	}
}

func TestVersionComesFromServer(t *testing.T) {
	c := newCluster(t)
	if version, err := c.Version(t.Context()); err != nil || version != controlplane.DefaultVersion() {
		t.Errorf("version %q, %v", version, err)
	}
	for text, want := range map[string]string{"{}": "/version reports none", "hello": "/version reports none"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
		defer server.Close()
		if _, err := connect(t, &rest.Config{Host: server.URL}).Version(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a server that answers %q: %v", text, err)
		}
	}
}

func TestRetryReturnsPermanentError(t *testing.T) {
	tries, want := 0, errors.New("no")
	err := connect(t, &rest.Config{Host: "http://127.0.0.1:1"}).Retry(t.Context(), kube.Ref{Kind: "x"}, func(ctx context.Context) error {
		if tries++; tries == 1 {
			return syscall.ECONNREFUSED
		}
		return want
	})
	if !errors.Is(err, want) || tries != 2 {
		t.Errorf("%d tries: %v", tries, err)
	}
}

func TestKindIsFoundByAnyOfItsNames(t *testing.T) {
	cluster := connect(t, shared.Config(t))
	for _, c := range []struct{ apiVersion, name, want string }{
		{"v1", "ConfigMap", "/v1 ConfigMap"}, {"", "configmaps", "/v1 ConfigMap"}, {"", "cm", "/v1 ConfigMap"}, {"", "CONFIGMAP", "/v1 ConfigMap"},
		{"", "deploy", "apps/v1 Deployment"}, {"apps/v1", "deployment", "apps/v1 Deployment"}, {"", "crd", "apiextensions.k8s.io/v1 CustomResourceDefinition"},
		{"events.k8s.io/v1", "events", "events.k8s.io/v1 Event"}, {"", "event", "/v1 Event"},
	} {
		for range 2 { // the second time from memory
			ref, err := cluster.KindOf(t.Context(), c.apiVersion, c.name)
			if got := ref.Group + "/" + ref.Version + " " + ref.Kind; err != nil || got != c.want {
				t.Errorf("%q %s is %s, %v", c.apiVersion, c.name, got, err)
			}
		}
	}
	for _, c := range [][2]string{{"", "nothing"}, {"apps/v1", "pods"}, {"nowhere.org/v1", "pods"}} {
		if ref, err := cluster.KindOf(t.Context(), c[0], c[1]); !meta.IsNoMatchError(err) {
			t.Errorf("%q is %v, %v", c, ref, err)
		}
	}
	if _, err := cluster.KindOf(t.Context(), "a/b/c", "pods"); err == nil || meta.IsNoMatchError(err) {
		t.Errorf("an apiVersion of three parts: %v", err)
	}
}
