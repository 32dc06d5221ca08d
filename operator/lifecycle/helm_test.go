package lifecycle_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/helm/release"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/kube"
)

// TestMain lets this binary render charts.
func TestMain(m *testing.M) {
	sandbox.Main(engine.Tasks()...)
	os.Exit(m.Run())
}

// counter counts the requests of a client.
type counter struct {
	next          http.RoundTripper
	reads, writes *atomic.Int32
}

func (c counter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		if r.URL.Query().Get("watch") == "" {
			c.reads.Add(1)
		}
	} else {
		c.writes.Add(1)
	}
	return c.next.RoundTrip(r)
}

// withHelm gives a site real releases, and counts the operator's requests to the API server.
func (s *site) withHelm() (c counter, client *release.Client) {
	s.Helper()
	c = counter{reads: &atomic.Int32{}, writes: &atomic.Int32{}}
	config, _ := s.cluster.Config()
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return counter{next, c.reads, c.writes}
	})
	var err error
	if s.cluster, err = kube.Connect(config, nil); err != nil {
		s.Fatal(err)
	}
	if client, err = release.New(release.Config{Cluster: rest.CopyConfig(config), Namespace: s.namespace}); err != nil {
		s.Fatal(err)
	}
	s.installed = release.NewModules(client, release.ModuleOptions{})
	return c, client
}

func (s *site) revision(name string) int {
	s.Helper()
	all, err := s.installed.List(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return all[name].Revision
}

func chartOf(name, more string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {x: {{ .Values.global.x | default \"\" | quote }}}\n" + more
}

// testHeal deletes objects of a chart: as another client, and as a hook.
func testHeal(s *site) {
	s.withHelm()
	s.healEvery = 300 * time.Millisecond
	s.file("modules/values.yaml", "aEnabled: true\n")
	s.file("modules/a/templates/x.yaml", chartOf("kept", "data: {twice: \"1\"}\n---\n"+chartOf("stolen", "---\n"+chartOf("dropped", ""))))
	s.hook("modules/a/hooks/drop.sh", "kubernetes: ["+s.maps("")+"]", `grep -q '"type":"Event"' $BINDING_CONTEXT_PATH || exit 0
echo '{operation: DeleteInBackground, kind: configmap, namespace: `+s.namespace+`, name: dropped}' > $KUBERNETES_PATCH_PATH`)
	s.hook("modules/a/hooks/h.sh", "afterHelm: 1", "")
	o := s.start()
	s.idle(o)
	objects, err := s.cluster.Objects(s.Context(), kube.Ref{Version: "v1", Kind: "ConfigMap", Namespace: s.namespace})
	if err != nil {
		s.Fatal(err)
	}
	exists := func(name string) bool {
		_, err := objects.Get(s.Context(), name, metav1.GetOptions{})
		return err == nil
	}
	if !exists("kept") || !exists("stolen") || !exists("dropped") || s.revision("a") != 1 {
		s.Fatalf("the chart is not installed; revision %d", s.revision("a"))
	}
	s.seen("drop", "1")
	s.until("the hook has deleted its object", func() bool { return !exists("dropped") })
	s.idle(o)
	time.Sleep(3 * s.healEvery) // at least two checks
	if exists("dropped") || s.revision("a") != 1 {
		s.Errorf("what a hook has deleted is absent for Helm; revision %d", s.revision("a"))
	}
	if err := objects.Delete(s.Context(), "stolen", metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.until("the object is back", func() bool { return exists("stolen") })
	s.idle(o)
	if s.revision("a") != 2 {
		s.Errorf("revision %d", s.revision("a"))
	}
	if log := s.log.String(); !strings.Contains(log, "objects of a module are absent; it runs again") || !strings.Contains(log, "absent=ConfigMap/"+s.namespace+"/stolen") && !strings.Contains(log, "absent=ConfigMap/stolen") {
		s.Error(log)
	}
}

const manyModules = 100

// more are the usual objects of a module, in addition to its ConfigMap.
func more(name string) string {
	return strings.ReplaceAll(`---
apiVersion: v1
kind: Secret
metadata: {name: NAME}
---
apiVersion: v1
kind: Service
metadata: {name: NAME, labels: {app: NAME}}
spec: {selector: {app: NAME}, ports: [{name: http, port: 80, targetPort: {{ .Values.global.port | default 8080 }}}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, labels: {app: NAME}}
spec:
  replicas: {{ .Values.global.replicas | default 1 }}
  selector: {matchLabels: {app: NAME}}
  template:
    metadata:
      labels: {app: NAME}
      annotations: {release: {{ .Release.Name | quote }}}
    spec:
      containers:
      - name: NAME
        image: {{ printf "registry.example/%s:%v" "NAME" (.Values.global.tag | default "1.0") }}
        ports: [{containerPort: {{ .Values.global.port | default 8080 }}}]
        envFrom: [{configMapRef: {name: NAME}}, {secretRef: {name: NAME}}]
`, "NAME", name)
}

// testHundred reloads a hundred modules whose charts render to their live objects: no revision, no write, and reads that do not
// grow with the modules.
func testHundred(s *site) {
	requests, client := s.withHelm()
	flags := ""
	for i := range manyModules {
		name := fmt.Sprintf("m%d", i)
		flags += name + "Enabled: true\n"
		s.file("modules/"+name+"/templates/x.yaml", chartOf(name, more(name)))
	}
	s.file("modules/values.yaml", flags)
	const rounds = 5
	for round := range rounds {
		s.file(fmt.Sprintf("modules/off%d/templates/x.yaml", round), "")
	}
	o := s.start()
	s.idle(o)
	reload := func(edit map[string]any) (took time.Duration, reads, writes int32) {
		over := func() int { return strings.Count(s.log.String(), "all modules have run") }
		before := over()
		time.Sleep(300 * time.Millisecond) // lists that follow others within 100 ms wait for the API server
		s.config(edit)
		requests.reads.Store(0)
		requests.writes.Store(0)
		s.until("a reload", func() bool { return over() > before })
		s.idle(o)
		lines := strings.Split(s.log.String(), "took=")
		text, _, _ := strings.Cut(lines[len(lines)-1], "\n")
		took, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil {
			s.Fatal(err)
		}
		return took, requests.reads.Load(), requests.writes.Load()
	}
	render := func(round int) time.Duration {
		begin := time.Now()
		for i := range manyModules {
			name := fmt.Sprintf("m%d", i)
			chart, err := release.ReadFiles(map[string][]byte{
				"Chart.yaml":       []byte("apiVersion: v2\nname: x\nversion: 0.0.1\n"),
				"templates/x.yaml": []byte(chartOf(name, more(name))),
			})
			if err != nil {
				s.Fatal(err)
			}
			if _, err := client.Render(s.Context(), name, chart, fmt.Appendf(nil, "global: {y: %d}\n", round), release.Options{DisableOpenAPIValidation: true}); err != nil {
				s.Fatal(err)
			}
		}
		return time.Since(begin)
	}
	var rendering, again, same []time.Duration
	var reads, writes, readsSame, writesSame int32
	for round := range rounds {
		rendering = append(rendering, render(round))
		took, r, w := reload(map[string]any{"global": fmt.Sprintf("y: %d\n", round+1)})
		again, reads, writes = append(again, took), max(reads, r), writes+w
		took, r, w = reload(map[string]any{fmt.Sprintf("off%dEnabled", round): "false"})
		same, readsSame, writesSame = append(same, took), max(readsSame, r), writesSame+w
	}
	slices.Sort(rendering)
	slices.Sort(again)
	slices.Sort(same)
	middle := func(all []time.Duration) float64 { return all[rounds/2].Seconds() / rendering[rounds/2].Seconds() }
	s.Logf("%d modules, middle of %d: rendering takes %s, a reload with new inputs %s (%.2f of it) and at most %d reads, with the same inputs %s (%.2f) and %d reads",
		manyModules, rounds, rendering[rounds/2].Round(time.Millisecond), again[rounds/2], middle(again), reads, same[rounds/2], middle(same), readsSame)
	const kinds = 4
	if writes != 0 || writesSame != 0 || reads > kinds+10 || readsSame > kinds+10 {
		s.Error("too many requests")
	}
	all, err := s.installed.List(s.Context())
	if err != nil || len(all) != manyModules {
		s.Fatalf("%d releases, %v", len(all), err)
	}
	for name, r := range all {
		if r.Revision != 1 {
			s.Errorf("%s has revision %d", name, r.Revision)
		}
	}
}
