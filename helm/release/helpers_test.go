package release_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/helm/release"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// shared is one API server for all tests of the package. Each test has its own namespace.
var (
	shared controlplane.Shared
	tests  atomic.Int32
)

// upgradeJob names the environment variable with the job of a process that a test kills.
const upgradeJob = "SEALIFT_TEST_UPGRADE"

// job is an upgrade in a separate process.
type job struct{ Kubeconfig, Namespace, Chart string }

func TestMain(m *testing.M) {
	sandbox.Main(engine.Tasks()...)
	if text := os.Getenv(upgradeJob); text != "" {
		if err := upgradeUntilKilled(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if text := os.Getenv(ensureJob); text != "" {
		fmt.Fprintln(os.Stderr, ensureUntilKilled(text))
		os.Exit(1)
	}
	shared.Main(m)
}

// begin reads a job and connects to its cluster.
func begin(text string) (j job, c *release.Client, err error) {
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return j, nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", j.Kubeconfig)
	if err != nil {
		return j, nil, err
	}
	c, err = release.New(release.Config{Cluster: config, Namespace: j.Namespace})
	return j, c, err
}

func upgradeUntilKilled(text string) error {
	j, c, err := begin(text)
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

// world is a namespace of the API server, with its clients.
type world struct {
	*release.Client
	t         *testing.T
	config    *rest.Config
	objects   *kubernetes.Clientset
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	w := &world{t: t, config: shared.Config(t), namespace: fmt.Sprintf("n%d", tests.Add(1))}
	var err error
	if w.objects, err = kubernetes.NewForConfig(w.config); err != nil {
		t.Fatal(err)
	}
	w.Client = w.client(release.Config{})
	w.must(w.objects.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, metav1.CreateOptions{}))
	return w
}

func (w *world) client(c release.Config) *release.Client {
	w.t.Helper()
	c.Cluster, c.Namespace = w.config, w.namespace
	client, err := release.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}

// must ends the test at an error. It takes the result of a call.
func (w *world) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// text returns the data of the chart's ConfigMap, or "" if there is none.
func (w *world) text(name string) string {
	c, err := w.objects.CoreV1().ConfigMaps(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return c.Data["text"]
}

func (w *world) wantStatus(name string, revision int, status string) release.Release {
	w.t.Helper()
	r, err := w.Get(w.t.Context(), name)
	if err != nil || r.Revision != revision || r.Status != status {
		w.t.Fatalf("%s has revision %d and status %q, want %d and %q: %v\n%s", name, r.Revision, r.Status, revision, status, err, r.Description)
	}
	return r
}

// endless is a hook that never ends, since no controller runs.
const endless = `apiVersion: batch/v1
kind: Job
metadata: {name: {{ .Release.Name }}-endless, annotations: {"helm.sh/hook": "%s"}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "example.org/c:1"}]}}}
`

// files is a chart with one ConfigMap. Changes replace or add files.
func files(version string, changes map[string]string) map[string]string {
	all := map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: web\nversion: " + version + "\nappVersion: \"9\"\n",
		"values.yaml": "text: plain\n",
		"templates/c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n" +
			"data: {text: {{ .Values.text | quote }}, upgrade: {{ .Release.IsUpgrade | quote }}}\n",
	}
	maps.Copy(all, changes)
	return all
}

func chart(t *testing.T, version string, changes map[string]string) release.Chart {
	t.Helper()
	c, err := release.ReadArchive(fixture.ChartArchive(t, "web", files(version, changes)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func contains(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want one with %q", err, want)
	}
}
