package proxy_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/proxy"
	"github.com/sealift/sealift/fleet/registration"
	"github.com/sealift/sealift/fleet/values"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/helm/release"
	"github.com/sealift/sealift/helm/source"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/hubsetup"
	"github.com/sealift/sealift/testgrid/lab/daemon"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// world is a hub whose API server plays the clusters, too, and a registry and a repository with the chart web.
type world struct {
	client.Client
	config                 *rest.Config
	registry, repository   string // for repoURL
	authority, credentials []byte
}

const user, password = "captain", "open sesame"

// newWorld starts a hub with its minimal rights. It may read the Secrets in the namespaces of rooms.
func newWorld(t *testing.T, rooms ...string) *world {
	t.Helper()
	w := &world{config: controlplane.ForTest(t)}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, caaph.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.Client, err = client.New(w.config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	w.serveCharts(t)
	rights := hubsetup.Rights(t, w.config, registration.Hub{Namespace: hub.DefaultNamespace, SecretNamespaces: rooms})
	ready := make(chan struct{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- hub.Run(ctx, hub.Options{
			Config: rights, Webhook: hub.Webhook{Listen: "127.0.0.1:0"},
			Controllers: []hub.Controller{
				proxy.New(proxy.Options{Retry: 300 * time.Millisecond, Resync: 2 * time.Second}),
				func(context.Context, *hub.Hub) error { close(ready); return nil },
			},
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the hub ended with %v", err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatalf("the hub ended with %v", err)
	}
	w.create(t, fixture.ClusterDefinition) // after the hub: Cluster API may be installed later
	return w
}

// create creates an object. The API server may be about to serve its kind.
func (w *world) create(t *testing.T, text string) {
	t.Helper()
	o := new(unstructured.Unstructured)
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		err := w.Create(t.Context(), o)
		if err == nil {
			return
		}
		if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) && !apierrors.IsInternalError(err) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// upgradeJob names the environment variable with the job of a process that a test kills.
const upgradeJob = "SEALIFT_TEST_UPGRADE"

// job is an upgrade in a separate process.
type job struct{ Kubeconfig, Namespace, Chart string }

func TestMain(m *testing.M) {
	sandbox.Main(slices.Concat(engine.Tasks(), values.Tasks(), source.Tasks())...)
	text := os.Getenv(upgradeJob)
	if text == "" {
		os.Exit(m.Run())
	}
	if err := upgradeUntilKilled(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func upgradeUntilKilled(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", j.Kubeconfig)
	if err != nil {
		return err
	}
	c, err := release.New(release.Config{Cluster: config, Namespace: j.Namespace})
	if err != nil {
		return err
	}
	chart, err := release.Load(j.Chart)
	if err != nil {
		return err
	}
	_, err = c.Upgrade(context.Background(), "web", chart, nil, release.Options{})
	return err
}

// endless is the chart web with a hook that never ends, since no controller runs.
func endless(t testing.TB) []byte {
	return fixture.ChartArchive(t, "web", map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.5\n",
		"templates/hook.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: endless, annotations: {\"helm.sh/hook\": pre-upgrade}}\n" +
			"spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: \"example.org/c:1\"}]}}}\n",
	})
}

// archive is the chart web. With the value fail it does not render, and with pod it has an image.
func archive(t testing.TB, version string) []byte {
	return fixture.ChartArchive(t, "web", map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: " + version + "\n",
		"templates/c.yaml": "{{ if .Values.fail }}{{ fail \"it does not work here\" }}{{ end }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n" +
			"data: {text: {{ .Values.text | default \"none\" | quote }}, version: {{ .Chart.Version | quote }}}\n",
		"templates/p.yaml": "{{ if .Values.pod }}\napiVersion: v1\nkind: PodTemplate\nmetadata: {name: {{ .Release.Name }}}\n" +
			"template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: \"registry.example.io/web:1\"}]}}\n{{ end }}\n",
	})
}

// serveCharts serves web 1.0.0 and 1.1.0 by a registry and a repository, which have certificates of a private authority and
// require a password.
func (w *world) serveCharts(t *testing.T) {
	t.Helper()
	plain := startRegistry(t)
	index := "apiVersion: v1\nentries:\n  web:\n"
	mux := http.NewServeMux()
	for _, version := range []string{"1.0.0", "1.1.0"} {
		content := archive(t, version)
		image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
			mutate.Addendum{Layer: static.NewLayer(content, "application/vnd.cncf.helm.chart.content.v1.tar+gzip")})
		if err != nil {
			t.Fatal(err)
		}
		tag, err := name.NewTag(plain+"/charts/web:"+version, name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(tag, image, remote.WithContext(t.Context())); err != nil {
			t.Fatal(err)
		}
		mux.HandleFunc("/repo/web-"+version+".tgz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })
		index += fmt.Sprintf("  - {version: %s, urls: [web-%s.tgz]}\n", version, version)
	}
	mux.HandleFunc("/repo/index.yaml", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, index) })
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: plain})
	mux.Handle("/v2/", behind)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "https://")
	w.registry, w.repository = "oci://"+host+"/charts", server.URL+"/repo"
	w.authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	w.credentials = fmt.Appendf(nil, `{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
}

// startRegistry runs the lab's registry, and returns its address.
func startRegistry(t *testing.T) string {
	t.Helper()
	workshop, err := upstream.NewWorkshop(upstream.Options{Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	binary, err := workshop.File(t.Context(), upstream.Program("registry"))
	if err != nil {
		t.Fatal(err)
	}
	address, err := daemon.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "registry.yaml")
	config := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: %q}\n", filepath.Join(dir, "data"), address)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(daemon.Command{Path: binary, Args: []string{"serve", file}, Log: filepath.Join(dir, "log"), Env: []string{"OTEL_TRACES_EXPORTER=none"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	err = d.WaitReady(t.Context(), func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v2/", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// room is a namespace of the hub with clusters, and a namespace for releases on them.
type room struct {
	*world
	t         *testing.T
	namespace string
}

func (w *world) room(t *testing.T, namespace string) *room {
	t.Helper()
	t.Parallel()
	r := &room{world: w, t: t, namespace: namespace}
	r.secret("pull", "config.json", w.credentials)
	r.secret("authority", "ca.crt", w.authority)
	return r
}

func (r *room) secret(name, key string, value []byte) {
	r.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.namespace}, Data: map[string][]byte{key: value}}
	if err := r.Create(r.t.Context(), s); err != nil {
		r.t.Fatal(err)
	}
}

// cluster makes a cluster with a label, and the kubeconfig of the hub's own API server.
func (r *room) cluster(name, labels string) {
	r.t.Helper()
	r.clusterAt(name, labels, r.config.Host)
}

func (r *room) clusterAt(name, labels, host string) {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "kubeconfig")
	config := rest.CopyConfig(r.config)
	config.Host = host
	if err := controlplane.WriteKubeconfig(file, config); err != nil {
		r.t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		r.t.Fatal(err)
	}
	r.secret(name+"-kubeconfig", "value", text)
	r.create(r.t, fmt.Sprintf("apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: %s, namespace: %s, labels: {%s}}\n"+
		"spec: {clusterNetwork: {pods: {cidrBlocks: [10.1.0.0/16, 10.2.0.0/16]}}}\n", name, r.namespace, labels))
}

// proxy makes a HelmChartProxy. The spec is one line of YAML, merged with the common fields.
func (r *room) proxy(name, annotations, spec string) {
	r.t.Helper()
	r.create(r.t, fmt.Sprintf("apiVersion: addons.cluster.x-k8s.io/v1alpha1\nkind: HelmChartProxy\nmetadata: {name: %s, namespace: %s, annotations: {%s}}\n"+
		"spec: {chartName: web, credentials: {secret: {name: pull}, key: config.json}, tlsConfig: {caSecret: {name: authority}}, namespace: %s-on-clusters, %s}\n",
		name, r.namespace, annotations, r.namespace, spec))
}

func (r *room) hcp(name string) *caaph.HelmChartProxy {
	r.t.Helper()
	o := new(caaph.HelmChartProxy)
	if err := r.Get(r.t.Context(), client.ObjectKey{Namespace: r.namespace, Name: name}, o); err != nil {
		r.t.Fatal(err)
	}
	return o
}

// change changes a HelmChartProxy.
func (r *room) change(name, patch string) {
	r.t.Helper()
	if err := r.Patch(r.t.Context(), r.hcp(name), client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		r.t.Fatal(err)
	}
}

// remove deletes a HelmChartProxy, and waits until it is gone.
func (r *room) remove(name string) {
	r.t.Helper()
	hcp := r.hcp(name)
	if err := r.Delete(r.t.Context(), hcp); err != nil {
		r.t.Fatal(err)
	}
	r.eventually(name+" is deleted", func() (bool, string) {
		err := r.Get(r.t.Context(), client.ObjectKeyFromObject(hcp), new(caaph.HelmChartProxy))
		return apierrors.IsNotFound(err), fmt.Sprint(err, r.hrps())
	})
}

// hrps returns the HelmReleaseProxies of the room by cluster.
func (r *room) hrps() map[string]caaph.HelmReleaseProxy {
	r.t.Helper()
	var list caaph.HelmReleaseProxyList
	if err := r.List(r.t.Context(), &list, client.InNamespace(r.namespace)); err != nil {
		r.t.Fatal(err)
	}
	found := make(map[string]caaph.HelmReleaseProxy)
	for _, o := range list.Items {
		found[o.Spec.ClusterRef.Name] = o
	}
	return found
}

// eventually waits until a condition holds, which describes what it sees.
func (r *room) eventually(what string, holds func() (bool, string)) {
	r.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		done, seen := holds()
		if done {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: after a minute there is %s", what, seen)
		}
	}
}

// ready describes a condition of an object.
func says(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return "nothing"
	}
	return string(c.Status) + " " + c.Reason + " " + c.Message
}

// want waits until a cluster's HelmReleaseProxy has a text in a condition.
func (r *room) want(cluster, kind, text string) caaph.HelmReleaseProxy {
	r.t.Helper()
	var found caaph.HelmReleaseProxy
	r.eventually(cluster+": "+kind+" is "+text, func() (bool, string) {
		found = r.hrps()[cluster]
		s := says(found.Status.Conditions, kind)
		return strings.Contains(s, text), s
	})
	return found
}

// wantChart waits until a HelmChartProxy says something in a condition.
func (r *room) wantChart(name, kind, text string) {
	r.t.Helper()
	r.eventually(name+": "+kind+" is "+text, func() (bool, string) {
		s := says(r.hcp(name).Status.Conditions, kind)
		return strings.Contains(s, text), s
	})
}

// helm reads releases of the room's clusters.
func (r *room) helm() *release.Client {
	r.t.Helper()
	c, err := release.New(release.Config{Cluster: r.config, Namespace: r.namespace + "-on-clusters"})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// data is the data of the chart's ConfigMap.
func (r *room) data(release string) map[string]string {
	var c corev1.ConfigMap
	if err := r.Get(r.t.Context(), client.ObjectKey{Namespace: r.namespace + "-on-clusters", Name: release}, &c); err != nil {
		return nil
	}
	return c.Data
}
