// Package charts makes Helm charts for tests.
package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"maps"
	"path"
	"slices"
	"testing"
)

// Archive is the archive of a chart with these files, by their path below the chart's directory. The same files give the
// same bytes.
func Archive(t testing.TB, name string, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	w := tar.NewWriter(compressed)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: path.Join(name, file), Mode: 0o644, Size: int64(len(files[file])), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[file])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Hello is the chart hello 1.2.3, which needs three images of registry.example.io: web:1 in a Deployment, clock:2 in a CronJob
// and setup:3 in an init container. With sidecar.enabled it needs sidecar:4. Changes replace its files, or add some.
func Hello(changes map[string]string) map[string]string {
	files := map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: hello\nversion: 1.2.3\nappVersion: \"1\"\n",
		"values.yaml": `greeting: hello
registry: registry.example.io
web: web:1
sidecar:
  enabled: false
  image: {repository: registry.example.io/sidecar, tag: "4"}
extraArgs: []
`,
		"templates/web.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec:
      initContainers:
      - name: setup
        image: {{ .Values.registry }}/setup:3
      containers:
      - name: web
        image: {{ .Values.registry }}/{{ .Values.web }}
        args: {{ toJson .Values.extraArgs }}
        env:
        - name: GREETING
          value: {{ .Values.greeting }}
      {{- if .Values.sidecar.enabled }}
      - name: sidecar
        image: {{ .Values.sidecar.image.repository }}:{{ .Values.sidecar.image.tag }}
      {{- end }}
`,
		"templates/clock.yaml": `apiVersion: batch/v1
kind: CronJob
metadata: {name: {{ .Release.Name }}}
spec:
  schedule: "0 * * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: clock, image: "{{ .Values.registry }}/clock:2"}]}}}}
`,
		"templates/hooks.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-first
  annotations: {"helm.sh/hook": pre-install}
---
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-test
  annotations: {"helm.sh/hook": test}
spec: {containers: [{name: test, image: "registry.example.io/test:1"}]}
`,
		"templates/secret.yaml": `{{- if lookup "v1" "Secret" .Release.Namespace "hello" }}
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}-kept}
{{- end }}
`,
	}
	maps.Copy(files, changes)
	return files
}
