package airgap_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/testgrid/lab/mirror"
)

// helloHooks is the whole install.sh of a chart add-on.
const helloHooks = `# shellcheck shell=bash
hello() { sealift_apply hello "$DIR/addons/hello/$HELLO_VERSION/charts/hello"; }
`

// helloImages are three images that the lab makes of their components.
func helloImages() []string {
	return []string{"docker.io/library/busybox:1.35.0", "registry.k8s.io/metrics-server/metrics-server:v0.9.0", pauseImage}
}

// hello is a chart whose pod has those three: one that prints its version first, one that serves, and one that waits.
func hello(t *testing.T) []byte {
	t.Helper()
	images := helloImages()
	return fixture.ChartArchive(t, "hello", map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: hello\nversion: 1.2.3\n",
		"values.yaml": fmt.Sprintf("greeting: hello\nweb: %s\nversion: %s\nwait: %s\n", images[0], images[1], images[2]),
		"templates/web.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec:
      terminationGracePeriodSeconds: 0
      initContainers:
      - {name: version, image: {{ .Values.version }}, args: [--version]}
      containers:
      - name: web
        image: {{ .Values.web }}
        command: [sh, -c, 'echo {{ .Values.greeting }} from a chart >/tmp/index.html && exec httpd -f -p 8080 -h /tmp']
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
      - {name: wait, image: {{ .Values.wait }}}
`,
	})
}

// chartBundle makes a bundle with the packages of the road and an add-on that is a chart of an HTTP repository. It returns the
// folder for the USB disk.
func (r delivery) chartBundle(t *testing.T) string {
	t.Helper()
	return filepath.Join(r.part(t, "chart", func(dir string) { r.bundleChart(t, dir, filepath.Join(dir, "usb")) }), "usb")
}

// bundleChart builds the add-on with its chart in a folder, and bundles it for a USB disk.
func (r delivery) bundleChart(t *testing.T, dir, usb string) {
	t.Helper()
	archive := hello(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		switch request.URL.Path {
		case "/index.yaml":
			fmt.Fprint(w, "entries:\n  hello:\n  - {version: 1.2.3, urls: [hello-1.2.3.tgz]}\n")
		case "/hello-1.2.3.tgz":
			_, _ = bytes.NewReader(archive).WriteTo(w)
		default:
			http.NotFound(w, request)
		}
	}))
	defer server.Close()
	addOn := filepath.Join(dir, "addons/hello/1.0")
	place(t, filepath.Join(addOn, "Manifest"), []byte("chart hello https://charts.example.com 1.2.3\n"))
	place(t, filepath.Join(addOn, "install.sh"), []byte(helloHooks))
	place(t, filepath.Join(addOn, "charts/hello-values.yaml"), []byte("greeting: moin\n"))
	shell(t, dir, "cp -rl ../packages packages && mkdir usb")
	r.config = filepath.Join(dir, "sealift.yaml")
	r.mirrored(t, mirror.Options{}, func() {
		r.mirror(t, "https://charts.example.com/", server.URL+"/")
		args := []string{"--target", "debian-12", "--config", r.config, "--cache", r.cache}
		r.run(t, append([]string{"lock", addOn}, args...)...)
		r.run(t, append([]string{"build", addOn, "--locked", "--out", filepath.Join(dir, "packages")}, args...)...)
		r.run(t, append([]string{"build", addOn, "--locked", "--out", filepath.Join(dir, "again")}, args...)...)
	})
	shell(t, dir, "cmp packages/hello-1.0.tar.gz again/hello-1.0.tar.gz")
	text, err := os.ReadFile(filepath.Join(r.dir(), "installer.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	installer := filepath.Join(dir, "installer.yaml")
	place(t, installer, append(bytes.TrimSpace(text), "\n  hello:\n    version: \"1.0\"\n"...))
	r.run(t, "bundle", "-f", installer, "--store", filepath.Join(dir, "packages"), "--out", filepath.Join(usb, "cluster.tar.gz"))
	shell(t, usb, "tar xzf cluster.tar.gz --occurrence=1 install.sh")
}

// mirror adds a mirror to the sealift.yaml of the road.
func (r delivery) mirror(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(r.config)
	if err != nil {
		t.Fatal(err)
	}
	var settings map[string]any
	if err := yaml.Unmarshal(text, &settings); err != nil {
		t.Fatal(err)
	}
	mirrors, ok := settings["mirrors"].(map[string]any)
	if !ok {
		t.Fatalf("sealift.yaml has no mirrors:\n%s", text)
	}
	mirrors[from] = to
	if text, err = yaml.Marshal(settings); err != nil {
		t.Fatal(err)
	}
	place(t, r.config, text)
}

// chart installs the add-on that is a chart on a node of a cluster, from the third USB disk.
func chart(n node) {
	out := n.must("cd /media/usb3 && cat install.sh | bash -s airgap")
	if !strings.Contains(out, "done: ") {
		n.t.Errorf("the install ended without saying so:\n%s", out)
	}
	n.must(kubectl + "--namespace hello rollout status deployment/hello --timeout=180s")
	if got := n.must(kubectl + "get --raw /api/v1/namespaces/hello/pods/$(" + kubectl + "--namespace hello get pods -o jsonpath='{.items[0].metadata.name}'):8080/proxy/"); got != "moin from a chart\n" {
		n.t.Errorf("the chart serves %q", got)
	}
	pods := n.must(kubectl + "--namespace hello get pods -o jsonpath='{.items[0].spec}'")
	for _, image := range helloImages() {
		if !strings.Contains(pods, image) {
			n.t.Errorf("no container of the chart has image %s: %s", image, pods)
		}
	}
	n.pulled()
	if out := n.must("cd /media/usb3 && cat install.sh | bash -s airgap"); !strings.Contains(out, "nothing to do") {
		n.t.Errorf("second run:\n%s", out)
	}
}
