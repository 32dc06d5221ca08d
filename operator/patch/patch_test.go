package patch_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/patch"
)

// site is a cluster, and the ConfigMaps of its namespace default.
type site struct {
	*testing.T
	config  *rest.Config
	cluster *kube.Cluster
	maps    dynamic.ResourceInterface
}

func newSite(t *testing.T) *site {
	t.Helper()
	config := controlplane.ForTest(t)
	cluster, err := kube.Connect(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	maps, err := cluster.Objects(t.Context(), kube.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	return &site{t, config, cluster, maps}
}

func (s *site) in(name string, test func(*site)) {
	s.Run(name, func(t *testing.T) { test(&site{t, s.config, s.cluster, s.maps}) })
}

// run parses and does a stream.
func (s *site) run(stream string) error {
	operations, err := patch.Parse([]byte(stream))
	if err != nil {
		return err
	}
	return patch.Do(s.Context(), s.cluster, operations)
}

// fresh leaves only ConfigMap testcm with foo: bar.
func (s *site) fresh() {
	s.Helper()
	list, err := s.maps.List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, o := range list.Items {
		if err := s.maps.Delete(s.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			s.Fatal(err)
		}
	}
	if err := s.run("operation: Create\nobject: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: testcm}, data: {foo: bar}}"); err != nil {
		s.Fatal(err)
	}
}

// data is that of all ConfigMaps; nil for one without.
func (s *site) data() map[string]map[string]string {
	s.Helper()
	list, err := s.maps.List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	all := map[string]map[string]string{}
	for _, o := range list.Items {
		all[o.GetName()], _, _ = unstructured.NestedStringMap(o.Object, "data")
	}
	return all
}

func TestOperations(t *testing.T) {
	s := newSite(t)
	s.in("samples", testSamples)
	s.in("each operation", testEach)
	s.in("a status", testStatus)
	s.in("an object that is deleted is waited for", testDelete)
	s.in("conflicts are tried again", testConflict)
	s.in("what changes nothing is not sent", testNothingToUpdate)
	s.in("whole objects of the cluster are written back", testWholeObjects)
}

func testSamples(s *site) {
	var file struct {
		Cases []struct {
			Name, Operations      string
			OperationCount        int
			ParseError, ExecError bool
			ConfigMapsAfter       map[string]map[string]string
		}
	}
	text, err := os.ReadFile(upstreamcases.Path(s, "operator/shell-operator/object_patch.json"))
	if err != nil {
		s.Fatal(err)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		s.Fatal(err)
	}
	for _, c := range file.Cases {
		s.fresh()
		operations, err := patch.Parse([]byte(c.Operations))
		if (err != nil) != c.ParseError || len(operations) != c.OperationCount {
			s.Errorf("%s: %d operations, %v", c.Name, len(operations), err)
		}
		if err := patch.Do(s.Context(), s.cluster, operations); (err != nil) != c.ExecError {
			s.Errorf("%s: %v", c.Name, err)
		}
		if diff := cmp.Diff(c.ConfigMapsAfter, s.data()); diff != "" {
			s.Errorf("%s: %s", c.Name, diff)
		}
	}
	s.Logf("%d of %d rows of object_patch.json checked", len(file.Cases), len(file.Cases))
}

func testEach(s *site) {
	const named = "namespace: default, name: testcm"
	for _, c := range []struct{ name, stream, wantErr, after string }{
		{"two JSON documents", `{"operation":"Create","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"a"},"data":{"x":"1"}}}
			{"operation":"MergePatch","kind":"configmaps","namespace":"default","name":"a","mergePatch":{"data":{"y":"2"}}}`, "", `{"a":{"x":"1","y":"2"},"testcm":{"foo":"bar"}}`},
		{"an object as text", "operation: CreateOrUpdate\nobject: |\n  {apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: testcm}, data: {k: '1'}}\n", "", `{"testcm":{"k":"1"}}`},
		{"CreateIfNotExists leaves what exists", "operation: CreateIfNotExists\nobject: {apiVersion: v1, kind: ConfigMap, metadata: {" + named + "}, data: {a: b}}", "", `{"testcm":{"foo":"bar"}}`},
		{"JQPatch", "operation: JQPatch\nkind: cm\n" + strings.ReplaceAll(named, ", ", "\n") + "\njqFilter: '.data.baz = (.data.foo + \"x\")'", "", `{"testcm":{"baz":"barx","foo":"bar"}}`},
		{"a filter without an object", "{operation: JQPatch, kind: ConfigMap, " + named + ", jqFilter: .data.foo}", "its result is not an object", `{"testcm":{"foo":"bar"}}`},
		{"JSONPatch as text", "{operation: JSONPatch, kind: ConfigMap, " + named + ", jsonPatch: '[{\"op\":\"remove\",\"path\":\"/data/foo\"}]'}", "", `{"testcm":null}`},
		{"JSONPatch below what is missing", "{operation: JSONPatch, kind: ConfigMap, " + named + ", jsonPatch: [{op: add, path: /data/a/b, value: x}]}", "JSONPatch ConfigMap/default/testcm", `{"testcm":{"foo":"bar"}}`},
		{"a patch of what is missing", "{operation: MergePatch, kind: ConfigMap, namespace: default, name: nope, mergePatch: {data: {}}}", `"nope" not found`, `{"testcm":{"foo":"bar"}}`},
		{"a deletion of what is missing", "{operation: Delete, kind: ConfigMap, namespace: default, name: nope}", "", `{"testcm":{"foo":"bar"}}`},
		{"a deletion of a kind that nobody serves", "{operation: Delete, kind: Nothing, apiVersion: example.org/v1, name: nope}", "does not serve kind Nothing", `{"testcm":{"foo":"bar"}}`},
		{"a deletion in the background of a kind that nobody serves, and one after it", "{operation: DeleteInBackground, kind: Nothing, name: nope}\n---\n{operation: DeleteInBackground, kind: ConfigMap, " + named + "}",
			"DeleteInBackground Nothing/nope: ", `{}`},
		{"DeleteInBackground", "{operation: DeleteInBackground, kind: ConfigMap, " + named + "}", "", `{}`},
		{"an unknown kind", "{operation: MergePatch, kind: Nothing, name: x, mergePatch: {a: b}}", "does not serve kind Nothing", `{"testcm":{"foo":"bar"}}`},
		{"what is after a filter that is wrong", "{operation: JQPatch, kind: ConfigMap, " + named + ", jqFilter: '.['}\n---\n{operation: MergePatch, kind: ConfigMap, " + named + ", mergePatch: {data: {x: '1'}}}",
			"read the jq filter", `{"testcm":{"foo":"bar","x":"1"}}`},
		{"YAML as hooks print it", "--- {operation: CreateOrUpdate, by: hook, object: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: testcm}, data: {a: yes, b: on, c: 2020-01-02}}}\n" +
			"--- {operation: Create, object: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: '007'}}}\n--- {operation: MergePatch, kind: ConfigMap, namespace: default, name: 007, mergePatch: {data: {d: no}}}\n",
			"", `{"007":{"d":"no"},"testcm":{"a":"yes","b":"on","c":"2020-01-02"}}`},
		{"empty documents", "---\n---\n# nothing\n---\n", "", `{"testcm":{"foo":"bar"}}`},
	} {
		s.fresh()
		err := s.run(c.stream)
		if c.wantErr == "" && err != nil || c.wantErr != "" && (err == nil || !strings.Contains(err.Error(), c.wantErr)) {
			s.Errorf("%s: %v", c.name, err)
		}
		if got, _ := json.Marshal(s.data()); string(got) != c.after {
			s.Errorf("%s: %s", c.name, got)
		}
	}
}

func testStatus(s *site) {
	operations, err := patch.Parse([]byte(`
operation: Create
object:
  apiVersion: apps/v1
  kind: Deployment
  metadata: {namespace: default, name: web, annotations: {large: "9007199254740993"}}
  spec:
    replicas: 2
    revisionHistoryLimit: 10
    selector: {matchLabels: {app: web}}
    template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: example.org/web}]}}
---
{operation: MergePatch, kind: deploy, namespace: default, name: web, subresource: /status, ignoreHookError: true, mergePatch: {status: {replicas: 2}}}
---
{operation: JQPatch, kind: deploy, namespace: default, name: web, subresource: status, jqFilter: '.status.readyReplicas = 1 | .spec.replicas = 9'}
`))
	if err != nil {
		s.Fatal(err)
	}
	if operations[0].AfterFailure || !operations[1].AfterFailure || operations[2].AfterFailure {
		s.Error("only a status whose hook may fail is set after a failure")
	}
	if err := patch.Do(s.Context(), s.cluster, operations); err != nil {
		s.Fatal(err)
	}
	deployments, err := s.cluster.Objects(s.Context(), kube.Ref{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default"})
	if err != nil {
		s.Fatal(err)
	}
	live, err := deployments.Get(s.Context(), "web", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range []struct {
		path string
		want int64
	}{{"status.replicas", 2}, {"status.readyReplicas", 1}, {"spec.replicas", 2}} {
		if got, _, _ := unstructured.NestedInt64(live.Object, strings.Split(f.path, ".")...); got != f.want {
			s.Errorf("%s is %d", f.path, got)
		}
	}
}

func testDelete(s *site) {
	s.fresh()
	over := make(chan error)
	go func() { over <- s.run("{operation: Delete, kind: ConfigMap, namespace: default, name: testcm}") }()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		live, err := s.maps.Get(s.Context(), "testcm", metav1.GetOptions{})
		if err != nil || time.Now().After(deadline) {
			s.Fatal("the object is gone before its dependents, or it is not deleted", err)
		}
		if live.GetDeletionTimestamp() != nil {
			break
		}
	}
	select {
	case err := <-over:
		s.Errorf("not waited: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	// The garbage collector, which this control plane has not.
	if _, err := s.maps.Patch(s.Context(), "testcm", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
	if err := <-over; err != nil {
		s.Error(err)
	}
}

func testConflict(s *site) {
	s.fresh()
	errs := make(chan error)
	for range 5 {
		go func() {
			errs <- s.run(`{"operation":"JQPatch","kind":"ConfigMap","namespace":"default","name":"testcm","jqFilter":".data.foo += \"x\""}`)
		}()
	}
	for range 5 {
		if err := <-errs; err != nil {
			s.Error(err)
		}
	}
	if got := s.data()["testcm"]["foo"]; got != "barxxxxx" {
		s.Errorf("after five patches at once it is %s", got)
	}
}

type countUpdates struct {
	http.RoundTripper
	n atomic.Int32
}

func (c *countUpdates) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		c.n.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

func testNothingToUpdate(s *site) {
	s.fresh()
	updates := &countUpdates{}
	cfg := rest.CopyConfig(s.config)
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { updates.RoundTripper = rt; return updates })
	cluster, err := kube.Connect(cfg, nil)
	if err != nil {
		s.Fatal(err)
	}
	for i, filter := range []string{".data.foo = \"bar\"", ".metadata.managedFields = null | del(.metadata.uid)", ".data.foo = \"other\""} {
		operations, err := patch.Parse(fmt.Appendf(nil, "{operation: JQPatch, kind: ConfigMap, namespace: default, name: testcm, jqFilter: '%s'}", filter))
		if err != nil {
			s.Fatal(err)
		}
		if err := patch.Do(s.Context(), cluster, operations); err != nil || (updates.n.Load() > 0) != (i == 2) {
			s.Errorf("%s: %d updates, %v", filter, updates.n.Load(), err)
		}
	}
}

func TestMistakesRefuseWholeStream(t *testing.T) {
	for stream, want := range map[string]string{
		"{operation: Create, object: {}}\n---\n{operation: create}": `object patch 2: operation: "create" is unknown; did you mean "Create"?`,
		"- a":                             "must be an object, not an array",
		"a: [":                            "neither JSON nor YAML",
		"a: 1\na: 2":                      `document 1: line 2: a second "a" in one mapping`,
		"{operation: Create, object: []}": "object: must be an object",
		"{operation: Create, object: {apiVersion: v1, kind: ConfigMap, metadata: {}}}":            "object: needs apiVersion, kind, and metadata.name or metadata.generateName",
		"{operation: Create, object: 'a: ['}":                                                     "object: contains neither YAML nor JSON",
		"{operation: Delete, kind: Pod}":                                                          "name: is required",
		"{operation: Delete, name: x}":                                                            "kind: is required",
		"{operation: Delete, name: '', kind: Pod}":                                                "name: is empty",
		"{operation: MergePatch, kind: Pod, name: x}":                                             "mergePatch: is required",
		"{operation: MergePatch, kind: Pod, name: x, mergePach: {}}":                              `did you mean "mergePatch"?`,
		"{operation: MergePatch, kind: Pod, name: x, mergePatch: text}":                           "mergePatch: must be an object",
		"{operation: JQPatch, kind: Pod, name: x, jqFilter: null}":                                "jqFilter: is empty",
		"{operation: DeleteInBackground, kind: Pod, name: null}":                                  "name: is empty",
		"{operation: JSONPatch, kind: Pod, name: x, jsonPatch: {}}":                               "jsonPatch: must be an array",
		"{operation: JSONPatch, kind: Pod, name: x, jsonPatch: [{op: add, path: /a}]}":            "jsonPatch[0].value: is required",
		"{operation: JSONPatch, kind: Pod, name: x, jsonPatch: [{op: drop, path: /a}]}":           `jsonPatch[0].op: "drop" is not one of`,
		"{operation: MergePatch, kind: Pod, apiVersion: a/b/c, name: x, mergePatch: {a: b}}":      "apiVersion",
		"{operation: MergePatch, kind: Pod, name: x, mergePatch: {}}":                             "mergePatch: is empty",
		"{operation: MergePatch, kind: Pod, name: x, mergePatch: '{}'}":                           "mergePatch: is empty",
		"{operation: JSONPatch, kind: Pod, name: x, jsonPatch: []}":                               "jsonPatch: needs at least 1 item",
		"{operation: Delete, kind: Pod, name: x, ignoreMissingObject: 1}":                         "ignoreMissingObject: must be a boolean, not an integer",
		"{operation: Delete, kind: Pod, name: x}\n---\n{operation: Delete, kind: Pod, name: [x]}": "object patch 2: name: must be a string, not an array",
	} {
		if got, err := patch.Parse([]byte(stream)); got != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", stream, err)
		}
	}
}

// TestShellOperatorFormsAreAccepted: fields of other operations, fields that are null, and names that the server makes.
func TestShellOperatorFormsAreAccepted(t *testing.T) {
	operations, err := patch.Parse([]byte(`
{"operation":"DeleteInBackground","kind":"Node","name":"a","namespace":null,"ignoreMissingObject":true}
{"operation":"CreateOrUpdate","apiVersion":"v1","kind":"ConfigMap","namespace":"n","name":"b","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}}
{"operation":"Create","object":{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"n","generateName":"c-"}}}
{"operation":"JQPatch","apiVersion":null,"kind":"Pod","name":"d","jqFilter":".[","ignoreHookError":null}
{"operation":"Delete","kind":"Pod","name":42,"comment":"unknown fields are ignored"}
{"operation":"JSONPatch","kind":"Pod","name":"e","jsonPatch":[{"op":"remove","path":"/a","comment":"also in steps"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"DeleteInBackground Node/a", "CreateOrUpdate ConfigMap/b", "Create Job/n/c-", "JQPatch Pod/d", "Delete Pod/42", "JSONPatch Pod/e"} {
		if got := operations[i].String(); got != want {
			t.Errorf("operation %d is %s, not %s", i, got, want)
		}
	}
	if err := patch.Do(t.Context(), nil, operations[3:4]); err == nil || !strings.Contains(err.Error(), "JQPatch Pod/d: read the jq filter") {
		t.Errorf("a filter that is wrong: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"operation: CreateOrUpdate\nobject: |\n  {apiVersion: v1, kind: A, metadata: {name: b}}\n---\noperation: Delete\nkind: Pod\nname: x\n",
		`{"operation":"JSONPatch","kind":"Pod","name":"x","jsonPatch":[{"op":"move","from":"/a","path":"/b"}]} {"operation":"JQPatch","kind":"Pod","name":"x","jqFilter":"."}`,
		"{operation: MergePatch, kind: Pod, name: x, mergePatch: '{a: 12345678901234567890}', subresource: /status, ignoreHookError: true}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(_ *testing.T, stream []byte) {
		all, err := patch.Parse(stream)
		if err == nil {
			for _, o := range all {
				_ = o.String()
			}
		}
	})
}
