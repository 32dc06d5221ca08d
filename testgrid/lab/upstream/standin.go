package upstream

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/testgrid/lab/debian"
)

// TextFiles makes executable files of texts: scripts and their data.
type TextFiles struct {
	Files map[string]string // texts by file name
}

// Needs implements Recipe.
func (f TextFiles) Needs() []string { return nil }

// Tools implements Recipe.
func (f TextFiles) Tools() []debian.Tool { return nil }

// Make implements Recipe.
func (f TextFiles) Make(_ context.Context, _ *Workshop, dir string) error {
	for name, text := range f.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// kurlStandIns is the component with the texts of the stand-ins.
const kurlStandIns = "kurl-stand-ins-1"

// kurlStandInFiles are the files of the stand-ins in addition to busybox. A page answers a probe; its content does not matter.
func kurlStandInFiles() map[string]string {
	return map[string]string{
		"page":  "stand-in\n",
		"envoy": "#!/bin/sh\n# Answers envoy's readiness probe. It passes no traffic on.\nexec httpd -f -p 8002 -h /www\n",
		// OpenEBS's liveness probe counts processes by name, for which Debian's busybox has no command.
		"pgrep":  "#!/bin/sh\n[ \"$1\" = -c ] && cat /proc/[0-9]*/comm | grep -c \"$2\"\n",
		"volume": "#!/bin/sh\ncase \"$*\" in\n*\"-a delete\"*) rm -rf \"$VOL_DIR\" ;;\n*) mkdir -p -m 0777 \"$VOL_DIR\" ;;\nesac\n",
		"config.json": `{"nodePathMap": [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": ["/var/openebs/local"]}],
"setupCommand": "/bin/volume", "teardownCommand": "/bin/volume"}
`,
		"helperPod.yaml": `apiVersion: v1
kind: Pod
metadata: {name: helper-pod}
spec:
  containers:
  - {name: helper-pod, image: "docker.io/openebs/linux-utils:4.5.0", imagePullPolicy: IfNotPresent}
`,
		"velero": "#!/bin/sh\necho 'a stand-in of the lab: it talks to no cluster' >&2\nexit 1\n",
	}
}

// minioCommand serves the S3 API of MinIO's folder and port, with MinIO's credentials and MinIO's paths for probes.
const minioCommand = `exec versitygw --access "$MINIO_ACCESS_KEY" --secret "$MINIO_SECRET_KEY" --port :9000 --health /minio/health/:state posix /data`

const openebsCommand = `exec provisioner-localpv start --config /etc/localpv/config.json --helper-pod-file /etc/localpv/helperPod.yaml \
--provisioner-name openebs.io/local --namespace "$OPENEBS_NAMESPACE" --service-account-name "$OPENEBS_SERVICE_ACCOUNT" --helper-image "$OPENEBS_IO_HELPER_IMAGE"`

// Why an image of kURL's add-ons is a stand-in.
const (
	noModule  = "the Go proxy has no module of it"
	noProgram = "its commands are modules of their own, and the Go proxy has only the module above them"
	noGo      = "it is not a Go program"
	unused    = "no test starts it"
)

// kurlStandInImages start and answer their probes. MinIO is played by another S3 server, and OpenEBS by another maker of local
// volumes: both do the work.
func kurlStandInImages() []Image {
	list := []Image{
		answers("quay.io/jetstack/cert-manager-controller:v1.21.0", noProgram, 9403, "livez"),
		answers("quay.io/jetstack/cert-manager-webhook:v1.21.0", noProgram, 6080, "livez", "healthz"),
		answers("quay.io/jetstack/cert-manager-cainjector:v1.21.0", noProgram, 9402, "metrics"),
		answers("docker.io/bloomberg/goldpinger:3.11.2", noModule, 8080, "index.html"),
		{
			Ref: "docker.io/envoyproxy/envoy:v1.34.4", StandIn: noGo, Base: []string{busyboxBase},
			Files:      []Placed{{FileOf{kurlStandIns, "page"}, "www/ready"}, {FileOf{kurlStandIns, "envoy"}, "bin/envoy"}},
			Entrypoint: []string{"/bin/envoy"},
		},
		{
			Ref: "docker.io/kurlsh/minio:RELEASE.2025-10-15T17-29-55Z", StandIn: "the Go proxy has no release of it; it is versitygw",
			Base: []string{busyboxBase}, Files: filesOf(current("versitygw"), "bin", "versitygw"), Entrypoint: []string{"/bin/sh", "-c", minioCommand},
		},
		{
			Ref: "docker.io/openebs/provisioner-localpv:4.5.1", StandIn: noModule + "; it is local-path-provisioner", Base: []string{busyboxBase},
			Files: []Placed{
				{FileOf{localPath(), "local-path-provisioner"}, "usr/local/bin/provisioner-localpv"}, {FileOf{kurlStandIns, "pgrep"}, "usr/local/bin/pgrep"},
				{FileOf{kurlStandIns, "config.json"}, "etc/localpv/config.json"}, {FileOf{kurlStandIns, "helperPod.yaml"}, "etc/localpv/helperPod.yaml"},
			},
			Entrypoint: []string{"/bin/sh", "-c", openebsCommand},
		},
		{
			Ref: "docker.io/openebs/linux-utils:4.5.0", StandIn: noGo, Base: []string{busyboxBase},
			Files: []Placed{{FileOf{kurlStandIns, "volume"}, "bin/volume"}}, Cmd: []string{"sh"},
		},
		{Ref: "docker.io/kurlsh/s3cmd:20260224-0d00dd0", StandIn: noGo, Base: []string{busyboxBase}, Cmd: []string{"sh"}},
		answers("docker.io/replicated/ekco:v0.28.14", noModule, 8080, "healthz"),
		answers("docker.io/library/haproxy:3.4.2-alpine3.24", noGo, 8080, "healthz"),
	}
	for _, name := range []string{"velero:v1.18.2", "velero-plugin-for-aws:v1.14.2", "velero-plugin-for-gcp:v1.14.2"} {
		list = append(list, answers("docker.io/velero/"+name, unused, 8080, "healthz"))
	}
	return append(list, answers("docker.io/velero/velero-plugin-for-microsoft-azure:v1.14.2", noModule, 8080, "healthz"))
}

// answers is a stand-in that serves pages on a port, whatever its arguments are.
func answers(ref, reason string, port int, pages ...string) Image {
	i := Image{
		Ref: ref, StandIn: reason, Base: []string{busyboxBase}, User: "1000",
		Entrypoint: []string{"/bin/sh", "-c", fmt.Sprintf("exec httpd -f -p %d -h /www", port)},
	}
	for _, page := range pages {
		i.Files = append(i.Files, Placed{FileOf{kurlStandIns, "page"}, "www/" + page})
	}
	return i
}
