package kube_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/kube"
)

// recorder is an engine that records all requests.
type recorder struct {
	*kube.Engine
	mu       sync.Mutex
	requests []string
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	rec := &recorder{}
	engine := kube.New(connect(t, behind(t, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		rec.mu.Lock()
		rec.requests = append(rec.requests, r.Method+" "+r.URL.Path)
		rec.mu.Unlock()
		pass.ServeHTTP(w, r)
	})), kube.Options{})
	rec.Engine = engine
	return rec
}

// take returns the requests of some methods since the last call.
func (r *recorder) take(methods ...string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, request := range r.requests {
		if method, _, _ := strings.Cut(request, " "); slices.Contains(methods, method) {
			out = append(out, request)
		}
	}
	r.requests = nil
	return out
}

// everyShape has the kinds of fields and lists that a server distinguishes: maps, whole maps, lists by key, lists by value,
// keys with defaults, empty maps.
func everyShape() []string {
	return []string{
		configMapOf("a", "1"),
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: NS, annotations: {example.com/a.b: 'x: y'}}\ndata: {user: bWU=}\nstringData: {password: x}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: finalized, namespace: NS, finalizers: [example.com/a, example.com/b]}",
		"apiVersion: v1\nkind: Service\nmetadata: {name: svc, namespace: NS}\nspec: {selector: {app: web}, ports: [{name: dns, port: 53, protocol: UDP}, {name: http, port: 80, targetPort: http}]}",
		`apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NS}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {checksum/config: abc}}
    spec:
      nodeSelector: {kubernetes.io/os: linux}
      tolerations: [{key: a, operator: Exists}, {operator: Exists, effect: NoSchedule}]
      securityContext: {runAsNonRoot: true, supplementalGroups: [1, 2]}
      containers:
      - name: web
        image: example.com/web:1
        args: [--a=1, --b]
        env: [{name: A, value: '1'}, {name: B, valueFrom: {secretKeyRef: {name: s, key: password}}}]
        ports: [{containerPort: 8080}, {containerPort: 53, name: dns, protocol: UDP}]
        resources: {requests: {cpu: 100m, memory: 64Mi}}
        readinessProbe: {httpGet: {path: /, port: 8080}}
        volumeMounts: [{name: cache, mountPath: /cache}, {name: config, mountPath: /config}]
      - {name: side, image: example.com/side:1}
      volumes: [{name: cache, emptyDir: {}}, {name: config, configMap: {name: a}}]`,
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: NS}\nrules: [{apiGroups: [''], resources: [pods], verbs: [get, list]}]",
		"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: sa, namespace: NS}\nimagePullSecrets: [{name: s}]",
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: np, namespace: NS}\nspec: {podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}",
		"apiVersion: NS.example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: NS}\nspec: {size: 3, ratio: 0.5, on: true, parts: [{a: 1}, {b: [x]}]}",
		widgetDefinition,
	}
}

func TestApplySendsNothingForUnchangedObjects(t *testing.T) {
	c := newCluster(t)
	engine := newRecorder(t)
	objs := c.objects(everyShape()...)
	apply := func() string {
		result, err := engine.Apply(t.Context(), c.set, objs, kube.ApplyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return result.Summary()
	}
	apply()
	engine.take()
	if got := apply(); got != "10 unchanged" {
		t.Error(got)
	}
	if diff := cmp.Diff([]string(nil), engine.take(http.MethodPatch, http.MethodPost, http.MethodPut, http.MethodDelete)); diff != "" {
		t.Errorf("requests that write:\n%s", diff)
	}
	c.update("apps/v1/deployments", "web", "kube-controller-manager", setField(int64(1), "status", "replicas"), "status")
	c.update("v1/serviceaccounts", "sa", "controller", setField([]any{map[string]any{"name": "token"}}, "secrets"))
	apply()
	if got := engine.take(http.MethodPatch); got != nil {
		t.Errorf("what others wrote beside it made it send %v", got)
	}
}

// Every applied leaf is changed, and removed, by another client; each time the next apply has to detect it.
func TestApplyDetectsEveryDrift(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, widgetDefinition)
	for _, doc := range everyShape() {
		obj := c.objects(doc)[0]
		ref := kube.RefOf(obj)
		if ref.Namespace == "" {
			continue
		}
		gvr := obj.GetAPIVersion() + "/" + map[string]string{"NetworkPolicy": "networkpolicies"}[ref.Kind]
		if strings.HasSuffix(gvr, "/") {
			gvr += strings.ToLower(ref.Kind) + "s"
		}
		set := kube.Set{Name: c.set.Name + "-" + ref.Name}
		force := func() (kube.Result, error) {
			return c.Apply(t.Context(), set, []*unstructured.Unstructured{obj}, kube.ApplyOptions{Force: true})
		}
		if _, err := force(); err != nil {
			t.Fatal(err)
		}
		var leaves [][]any
		collect(obj.Object, nil, &leaves)
		tried := 0
		for _, leaf := range leaves {
			for _, remove := range []bool{false, true} {
				if !c.spoil(gvr, ref.Name, leaf, remove, obj) {
					continue
				}
				tried++
				// The server may refuse to restore it, for an element that then exists twice; it was asked.
				if result, err := force(); err == nil && result.Entries[0].Action == kube.Unchanged {
					t.Errorf("%s: %v was spoilt (removed: %v), and the apply did not see it", ref, leaf, remove)
				}
				_ = c.resource(gvr, c.ns).Delete(t.Context(), ref.Name, metav1.DeleteOptions{})
				c.release(gvr, ref.Name)
				if _, err := force(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if tried == 0 {
			t.Errorf("%s: the server took none of %d changes", ref, len(leaves))
		}
	}
}

// release removes the finalizers of an object, so that a delete completes.
func (c *cluster) release(gvr, name string) {
	if obj := c.get(gvr, name); obj != nil && obj.GetDeletionTimestamp() != nil {
		_, _ = c.resource(gvr, c.ns).Patch(c.t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	}
}

// collect lists the paths of all scalars, and of lists.
func collect(value any, path []any, out *[][]any) {
	switch value := value.(type) {
	case map[string]any:
		for key, below := range value {
			collect(below, append(slices.Clone(path), key), out)
		}
	case []any:
		*out = append(*out, path)
		for i, below := range value {
			collect(below, append(slices.Clone(path), i), out)
		}
	default:
		*out = append(*out, path)
	}
}

// spoil changes or removes one value as another client would, and reports whether that made a difference to obj.
func (c *cluster) spoil(gvr, name string, path []any, remove bool, obj *unstructured.Unstructured) bool {
	c.t.Helper()
	pointer := ""
	for _, step := range path {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(fmt.Sprint(step))
	}
	live := c.get(gvr, name)
	op := map[string]any{"op": "remove", "path": pointer}
	if !remove {
		op = map[string]any{"op": "replace", "path": pointer, "value": another(valueAt(live.Object, path))}
	}
	body, err := json.Marshal([]any{op})
	if err != nil {
		c.t.Fatal(err)
	}
	spoilt, err := c.resource(gvr, c.ns).Patch(c.t.Context(), name, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		return false
	}
	if within(obj.Object, spoilt.Object) == within(obj.Object, live.Object) {
		return false // a default, or a field of another manager
	}
	return true
}

// within reports whether one value has all that another says.
func within(said, live any) bool {
	switch said := said.(type) {
	case map[string]any:
		live, ok := live.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range said {
			if key != "stringData" && !within(value, live[key]) {
				return false
			}
		}
		return true
	case []any:
		live, ok := live.([]any)
		if !ok || len(live) < len(said) {
			return false
		}
		for i, value := range said {
			if !within(value, live[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(said, live)
}

func valueAt(value any, path []any) any {
	for _, step := range path {
		switch at := step.(type) {
		case string:
			content, _ := value.(map[string]any)
			value = content[at]
		case int:
			list, _ := value.([]any)
			value = list[at]
		}
	}
	return value
}

func another(value any) any {
	switch value := value.(type) {
	case string:
		return value + "x"
	case int64:
		return value + 1
	case float64:
		return value + 1
	case bool:
		return !value
	case []any:
		return append([]any{}, value[1:]...)
	}
	return "another"
}

func TestApplyDetectsLostOwnership(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("a", "1"))
	c.update("v1/configmaps", "a", "somebody", setField([]any{map[string]any{}}, "metadata", "managedFields"))
	if c.get("v1/configmaps", "a").GetManagedFields() != nil {
		t.Fatal("the fields are managed still")
	}
	c.apply(kube.ApplyOptions{}, configMapOf("a", "1"))
	if got := c.get("v1/configmaps", "a").GetManagedFields(); !slices.ContainsFunc(got, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == kube.Manager }) {
		t.Errorf("managers: %v", got)
	}
}
