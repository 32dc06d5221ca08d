package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/hook"
	"github.com/sealift/sealift/operator/lifecycle"
	"github.com/sealift/sealift/operator/module"
)

// site is a cluster, folders of modules and of global hooks, and the trace that hooks and charts leave.
type site struct {
	*testing.T
	cluster   *kube.Cluster
	plane     *rest.Config
	operators *kube.Cluster // the operator's way to the cluster, if it is another one
	namespace string
	dir       string
	trace     string
	log       *fixture.Buffer
	releases  *releases
	// installed are real releases, where a test needs them.
	installed lifecycle.Releases
	healEvery time.Duration
	env       []string
}

// releases records the calls for a module's chart in the trace. The tests of package helm/release show what charts do.
type releases struct {
	mu    sync.Mutex
	trace string
	there map[string]helm.Record
	last  map[string]map[string]any // values by release
	stuck string                    // a release that cannot be uninstalled
}

func (r *releases) note(format string, args ...any) {
	f, err := os.OpenFile(r.trace, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintf(f, format+"\n", args...)
}

func (r *releases) List(context.Context) (map[string]helm.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.there), nil
}

func (*releases) Prepare(context.Context, helm.Wanted) map[string][]byte { return nil }

func (r *releases) Ensure(_ context.Context, w helm.Wanted) (helm.Ensured, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.there[w.Name], r.last[w.Name] = helm.Record{Revision: 1, Status: "deployed"}, w.Values
	r.note("helm upgrade %s", w.Name)
	return helm.Ensured{Upgraded: true}, nil
}

func (r *releases) Uninstall(_ context.Context, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("helm uninstall %s", name)
	if name == r.stuck {
		return errors.New("its hook failed")
	}
	delete(r.there, name)
	return nil
}

func (*releases) Refresh() {}

func (s *site) in(name string, test func(*site)) {
	s.alone(name, func(s *site) {
		s.Parallel()
		test(s)
	})
}

// alone runs a test that measures exclusively.
func (s *site) alone(name string, test func(*site)) {
	s.Run(name, func(t *testing.T) {
		one := &site{T: t, cluster: s.cluster, plane: s.plane, dir: t.TempDir(), log: &fixture.Buffer{}}
		one.namespace = strings.ReplaceAll(strings.ToLower(filepath.Base(t.Name())), "_", "-")
		one.namespace = strings.Trim(one.namespace[:min(len(one.namespace), 60)], "-")
		one.trace = filepath.Join(t.TempDir(), "trace")
		one.releases = &releases{trace: one.trace, there: map[string]helm.Record{}, last: map[string]map[string]any{}}
		one.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + one.namespace + "}\n")
		one.file("modules/values.yaml", "{}")
		one.file("global/.keep", "")
		test(one)
	})
}

func (s *site) file(name, text string) {
	s.Helper()
	path, mode := filepath.Join(s.dir, name), os.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		s.Fatal(err)
	}
}

// hook writes a hook that prints a configuration, and otherwise traces the bindings of its run and then runs a script.
func (s *site) hook(name, config, script string) {
	s.Helper()
	s.file(name, fmt.Sprintf(`#!/bin/bash
if [[ $1 == --config ]]; then cat <<'CONFIG'
configVersion: v1
%s
CONFIG
exit; fi
echo "%s $(jq -r '[.[] | .binding + (if .type == "Synchronization" then ":\(.objects | length)" elif .type == "Event" then ":\(.object.metadata.name)" else "" end)] | join(" ")' "$BINDING_CONTEXT_PATH")" >> "$TRACE"
%s
`, config, strings.TrimPrefix(strings.TrimPrefix(name, "modules/"), "global/"), script))
}

// behind is a cluster whose answers a function may replace: it reports whether it did.
func (s *site) behind(answer func(w http.ResponseWriter, r *http.Request) bool) *kube.Cluster {
	s.Helper()
	cluster, err := kube.Connect(controlplane.Through(s.T, s.plane, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if !answer(w, r) {
			pass.ServeHTTP(w, r)
		}
	}), nil)
	if err != nil {
		s.Fatal(err)
	}
	return cluster
}

func (s *site) load() (*lifecycle.Operator, error) {
	cluster := s.cluster
	if s.operators != nil {
		cluster = s.operators
	}
	var charts lifecycle.Releases = s.releases
	if s.installed != nil {
		charts = s.installed
	}
	return lifecycle.Load(s.Context(), lifecycle.Options{
		Options: engine.Options{
			Cluster: cluster, Log: slog.New(slog.NewTextHandler(s.log, nil)), MetricsPrefix: "addon_operator_",
			Runner: hook.Runner{TempDir: s.TempDir(), Set: append([]string{"TRACE=" + s.trace}, s.env...)},
		},
		ModulesDir: filepath.Join(s.dir, "modules"), GlobalHooksDir: filepath.Join(s.dir, "global"), DefaultOrder: module.DefaultOrder,
		Namespace: s.namespace, ConfigMap: "addon-operator", Releases: charts, IgnoreRelease: "operator", HealEvery: s.healEvery,
		DefinitionLabels: map[string]string{"heritage": "addon-operator"}, DefinitionPrefixes: "doc-, _,",
	})
}

// start runs the operator until the test ends, and waits for the first reload.
func (s *site) start() *lifecycle.Operator {
	s.Helper()
	o := s.run()
	s.until("all modules have run", o.Ready)
	return o
}

func (s *site) run() *lifecycle.Operator {
	s.Helper()
	o, err := s.load()
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	over := make(chan struct{})
	go func() { o.Run(ctx); close(over) }()
	s.Cleanup(func() { cancel(); <-over })
	return o
}

func (s *site) lines() []string {
	data, err := os.ReadFile(s.trace)
	if err != nil && !os.IsNotExist(err) {
		s.Fatal(err)
	}
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}

func (s *site) until(what string, reached func() bool) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("%s: not within a minute; trace:\n%s\nlog:\n%s", what, strings.Join(s.lines(), "\n"), s.log)
		}
	}
}

// idle waits until no queue has a task.
func (s *site) idle(o *lifecycle.Operator) {
	s.Helper()
	s.until("no task is queued", func() bool {
		for _, n := range o.Engine().Queues().Lengths() {
			if n > 0 {
				return false
			}
		}
		return true
	})
}

// traced compares the trace, and empties it.
func (s *site) traced(want ...string) {
	s.Helper()
	s.until("the trace", func() bool { return len(s.lines()) >= len(want) })
	if got := s.lines(); !slices.Equal(got, want) {
		s.Errorf("got\n%s\nwant\n%s\nlog:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), s.log)
	}
	if err := os.Truncate(s.trace, 0); err != nil && !os.IsNotExist(err) {
		s.Fatal(err)
	}
}

func (s *site) apply(text string) {
	s.Helper()
	controlplane.Apply(s, s.cluster, text)
}

// config sets keys of the ConfigMap as an administrator does; nil removes one.
func (s *site) config(data map[string]any) {
	s.Helper()
	objects, err := s.cluster.Objects(s.Context(), kube.Ref{Version: "v1", Kind: "ConfigMap", Namespace: s.namespace})
	if err != nil {
		s.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		s.Fatal(err)
	}
	if _, err = objects.Patch(s.Context(), "addon-operator", "application/merge-patch+json", patch, metav1.PatchOptions{}); apierrors.IsNotFound(err) {
		_, err = objects.Create(s.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "addon-operator"}, "data": data,
		}}, metav1.CreateOptions{})
	}
	if err != nil {
		s.Fatal(err)
	}
}

// live is the data of the ConfigMap, each section as plain data.
func (s *site) live() map[string]any {
	s.Helper()
	objects, err := s.cluster.Objects(s.Context(), kube.Ref{Version: "v1", Kind: "ConfigMap", Namespace: s.namespace})
	if err != nil {
		s.Fatal(err)
	}
	obj, err := objects.Get(s.Context(), "addon-operator", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	data, _, _ := unstructured.NestedStringMap(obj.Object, "data")
	all := map[string]any{}
	for key, text := range data {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			s.Fatal(err)
		}
		all[key] = value
	}
	return all
}

// asJSON is a value in one line.
func asJSON(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
