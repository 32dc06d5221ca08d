package references_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/catalog/references"
)

// addOn writes an add-on demo/1.0 from the txtar-like text of a row: "-- path --" lines start files, and a file that has
// "-> target" for its content is a link.
func addOn(t *testing.T, files string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "demo", "1.0")
	for _, part := range strings.Split("\n"+strings.TrimSpace(files)+"\n", "\n-- ")[1:] {
		name, content, _ := strings.Cut(part+"\n", " --\n")
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(strings.TrimSpace(content), "-> "); link {
			err = os.Symlink(target, name)
		} else {
			err = os.WriteFile(name, []byte(content+"\n"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// check returns the findings, one a line, positions relative to the add-on.
func check(t *testing.T, dir string) string {
	t.Helper()
	findings, err := references.Check(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range findings {
		lines = append(lines, strings.ReplaceAll(f.Error(), dir+string(filepath.Separator), ""))
	}
	return strings.Join(lines, "\n")
}

const pod = `apiVersion: v1
kind: Pod
metadata:
  name: app
  namespace: web
spec:
  containers:
  - name: main
    image: `

func TestCheck(t *testing.T) {
	for name, row := range map[string]struct{ files, want string }{
		"an image that is carried": {
			"-- Manifest --\nimage app example.org/app:1\n-- pod.yaml --\n" + pod + "example.org/app:1", "",
		},
		"names are compared in full": {
			"-- Manifest --\nimage app docker.io/library/busybox:latest\n-- pod.yaml --\n" + pod + "busybox", "",
		},
		"an image that is not carried": {
			"-- Manifest --\n-- yaml/pod.yaml --\n" + pod + "example.org/app:1",
			"yaml/pod.yaml:9:12: error: Pod web/app, container main: image example.org/app:1 is not in the Manifest (add to the Manifest: image <id> example.org/app:1)",
		},
		"another tag is carried": {
			"-- Manifest --\nimage app example.org/app:2\n-- pod.yaml --\n" + pod + "example.org/app:1\n-- notes.txt --\nexample.org/app:2",
			"pod.yaml:9:12: error: Pod web/app, container main: image example.org/app:1 is not in the Manifest (the Manifest has example.org/app:2)",
		},
		"init and ephemeral containers, and volumes made of images, count": {`
-- Manifest --
-- job.yaml --
apiVersion: batch/v1
kind: CronJob
metadata: {name: job}
spec:
  jobTemplate:
    spec:
      template:
        spec:
          initContainers:
          - {name: i, image: "example.org/init:1"}
          ephemeralContainers:
          - {name: e, image: "example.org/debug:1"}
          volumes:
          - name: v
            image: {reference: "example.org/data:1"}
`, `job.yaml:10:30: error: CronJob job, container i: image example.org/init:1 is not in the Manifest (add to the Manifest: image <id> example.org/init:1)
job.yaml:12:30: error: CronJob job, container e: image example.org/debug:1 is not in the Manifest (add to the Manifest: image <id> example.org/debug:1)
job.yaml:15:32: error: CronJob job, volume: image example.org/data:1 is not in the Manifest (add to the Manifest: image <id> example.org/data:1)`,
		},
		"a kustomization is rendered, and its files are not read beside": {`
-- Manifest --
image app registry.internal/app:2
-- yaml/kustomization.yaml --
resources: [pod.yaml]
images:
- {name: example.org/app, newName: registry.internal/app, newTag: "2"}
-- yaml/pod.yaml --
` + pod + "example.org/app:1", "",
		},
		"an image that a kustomization makes": {`
-- Manifest --
-- yaml/kustomization.yaml --
resources: [../base]
-- base/kustomization.yaml --
resources: [pod.yaml]
images:
- {name: example.org/app, newTag: "2"}
-- base/pod.yaml --
` + pod + "example.org/app:1",
			"yaml/kustomization.yaml: error: Pod web/app, container main: image example.org/app:2 is not in the Manifest (add to the Manifest: image <id> example.org/app:2)",
		},
		"a template is read under the name that a kustomization knows": {`
-- Manifest --
-- kustomization.yaml --
resources: [pod.yaml]
-- pod.tmpl.yaml --
` + pod + "example.org/app:1\n  nodeName: ${NODE_NAME}",
			"kustomization.yaml: error: Pod web/app, container main: image example.org/app:1 is not in the Manifest (add to the Manifest: image <id> example.org/app:1)",
		},
		"a template by kURL's kind of name": {
			"-- Manifest --\n-- tmpl-pod.yaml --\n" + pod + "example.org/app:1",
			"tmpl-pod.yaml:9:12: error: Pod web/app, container main: image example.org/app:1 is not in the Manifest (add to the Manifest: image <id> example.org/app:1)",
		},
		"an image out of a variable": {
			"-- Manifest --\n-- pod.yaml --\n" + pod + "example.org/app:${VERSION}",
			"pod.yaml:9:12: warning: Pod web/app, container main: the image depends on a variable and was not checked (write the image out; a kustomization can change it)",
		},
		"data that a hook makes for a generator": {`
-- Manifest --
-- kustomization.yaml --
resources: [pod.yaml]
configMapGenerator:
- {name: config, files: [made.json]}
-- pod.yaml --
` + pod + "example.org/app:1",
			"kustomization.yaml: error: Pod web/app, container main: image example.org/app:1 is not in the Manifest (add to the Manifest: image <id> example.org/app:1)",
		},
		"an object that a hook makes for a kustomization": {`
-- Manifest --
-- kustomization.yaml --
resources: [pod.yaml, made.yaml]
-- pod.yaml --
` + pod + "example.org/app:1",
			`kustomization.yaml: warning: cannot be rendered before its hook runs, so its files were read one by one: build kustomization: kustomization.yaml: "made.yaml" is not on disk, and nothing is fetched while building: put it beside the kustomization
pod.yaml:9:12: error: Pod web/app, container main: image example.org/app:1 is not in the Manifest (add to the Manifest: image <id> example.org/app:1)`,
		},
		"fields of custom resources only warn": {`
-- Manifest --
-- cluster.yaml --
apiVersion: ceph.rook.io/v1
kind: CephCluster
metadata: {name: rook}
spec:
  cephVersion: {image: "quay.io/ceph/ceph:v18"}
  helperImage: example.org/helper:1
  logo: {image: banner}
  template: {image: {registry: example.org, repository: tool, tag: "3"}}
  containers: [{name: c, image: "example.org/c:1"}]
`, `cluster.yaml:5:24: warning: CephCluster rook, field image: quay.io/ceph/ceph:v18 looks like an image and is not in the Manifest (add to the Manifest: image <id> quay.io/ceph/ceph:v18)
cluster.yaml:6:16: warning: CephCluster rook, field helperImage: example.org/helper:1 looks like an image and is not in the Manifest (add to the Manifest: image <id> example.org/helper:1)
cluster.yaml:8:21: warning: CephCluster rook, field image: example.org/tool:3 looks like an image and is not in the Manifest (add to the Manifest: image <id> example.org/tool:3)
cluster.yaml:9:33: warning: CephCluster rook, container c: example.org/c:1 looks like an image and is not in the Manifest (add to the Manifest: image <id> example.org/c:1)`,
		},
		"an image and a container that are aliases": {
			"-- Manifest --\n-- pod.yaml --\napiVersion: v1\nkind: Pod\nmetadata: {name: web, annotations: {app: &app \"example.org/app:1\"}}\n" +
				"spec:\n  initContainers: [&one {name: init, image: \"example.org/init:1\"}]\n  containers: [{name: main, image: *app}, {<<: *one, name: second}]\n",
			`pod.yaml:3:42: error: Pod web, container main: image example.org/app:1 is not in the Manifest (add to the Manifest: image <id> example.org/app:1)
pod.yaml:5:45: error: Pod web, container init: image example.org/init:1 is not in the Manifest (add to the Manifest: image <id> example.org/init:1)
pod.yaml:5:45: error: Pod web, container second: image example.org/init:1 is not in the Manifest (add to the Manifest: image <id> example.org/init:1)`,
		},
		"what an operator is told by variables and arguments": {
			"-- Manifest --\nimage app example.org/app:1\n-- pod.yaml --\n" + pod + `example.org/app:1
    env: [{name: SIDECAR_IMAGE, value: "example.org/sidecar:1"}, {name: MODE, value: "a:b"}]
    args: ["--reloader-image=example.org/reloader:1", "--listen=:8080", --helper-image, "example.org/helper:2", --image-pull-policy, Always, example.org/no:1]`,
			`pod.yaml:10:40: warning: Pod web/app, container main, variable SIDECAR_IMAGE: example.org/sidecar:1 looks like an image and is not in the Manifest (add to the Manifest: image <id> example.org/sidecar:1)
pod.yaml:11:12: warning: Pod web/app, container main, argument --reloader-image: example.org/reloader:1 looks like an image and is not in the Manifest (add to the Manifest: image <id> example.org/reloader:1)
pod.yaml:11:89: warning: Pod web/app, container main, argument --helper-image: example.org/helper:2 looks like an image and is not in the Manifest (add to the Manifest: image <id> example.org/helper:2)`,
		},
		"a pod in a ConfigMap only warns": {
			"-- Manifest --\n-- config.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  pod.yaml: |\n    " +
				strings.ReplaceAll(pod, "\n", "\n    ") + "example.org/app:1",
			"config.yaml: warning: Pod web/app, container main: example.org/app:1 looks like an image and is not in the Manifest (add to the Manifest: image <id> example.org/app:1)",
		},
		"the schema of a custom resource names no image": {
			"-- Manifest --\n-- crd.yaml --\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b.c}\nspec: {image: \"x/y:1\"}", "",
		},
		"an image that nothing names": {
			"-- Manifest --\nimage app example.org/app:1\n-- install.sh --\nfunction demo() { :; }",
			"Manifest:1:1: warning: nothing in the add-on refers to image example.org/app:1, neither by its reference nor by its id app (keep it if a program of the add-on starts pods of it by itself, and name it in a comment there; otherwise remove it)",
		},
		// Operators name the images of their workloads in their own code.
		"what programs start by default": {
			"-- Manifest --\nimage rook docker.io/rook/ceph:v1.19.7\nimage cephcsi quay.io/cephcsi/cephcsi:v3.15.0\nimage provisioner registry.k8s.io/sig-storage/csi-provisioner:v5\n" +
				"image velero velero/velero:v1.18.2\nimage helper velero/velero-restore-helper:v1.18.2\nimage operator quay.io/prometheus-operator/prometheus-operator:v1\n" +
				"image reloader quay.io/prometheus-operator/prometheus-config-reloader:v1\nimage cm quay.io/jetstack/cert-manager-controller:v1\nimage solver quay.io/jetstack/cert-manager-acmesolver:v1\n" +
				"image lh longhornio/longhorn-manager:v1\nimage engine longhornio/longhorn-engine:v1\nimage localpv openebs/provisioner-localpv:4\nimage utils openebs/linux-utils:4\nimage pause registry.k8s.io/pause:3.10\n" +
				"-- values.txt --\nrook/ceph velero/velero: prometheus-operator/prometheus-operator cert-manager-controller longhorn-manager provisioner-localpv\n" +
				"-- install.sh --\nfunction demo() { echo \"rook\" \"velero\" \"operator\" \"cm\" \"lh\" \"localpv\"; }", "",
		},
		"what kubeadm starts by default, in kURL's package": {
			"-- Manifest --\nimage kube-apiserver registry.k8s.io/kube-apiserver:v1\nimage kube-proxy registry.k8s.io/kube-proxy:v1\nimage coredns registry.k8s.io/coredns/coredns:v1\n" +
				"image etcd registry.k8s.io/etcd:3\nimage pause registry.k8s.io/pause:3\nasset kubeadm https://dl.k8s.io/v1/bin/linux/amd64/kubeadm\n", "",
		},
		"what the conformance tests start": {
			"-- Manifest --\nimage conformance registry.k8s.io/conformance:v1\nimage nginx-1-14-4 registry.k8s.io/e2e-test-images/nginx:1.14-4\n", "",
		},
		"what a program that is not there starts": {
			"-- Manifest --\nimage helper velero/velero-restore-helper:v1.18.2\n-- install.sh --\nfunction demo() { :; }",
			"Manifest:1:1: warning: nothing in the add-on refers to image velero/velero-restore-helper:v1.18.2, neither by its reference nor by its id helper (keep it if a program of the add-on starts pods of it by itself, and name it in a comment there; otherwise remove it)",
		},
		"an image that a comment names": {
			"-- Manifest --\nimage tool example.org/tool:1\n-- install.sh --\n# app starts example.org/tool by itself\nfunction demo() { :; }", "",
		},
		"an image that a hook looks up by its id": {
			"-- Manifest --\nimage pause example.org/pause:1\n-- install.sh --\nPAUSE=$(awk '$2 == \"pause\" { print $3 }' Manifest)", "",
		},
		"what kubeadm pulls": {`
-- Manifest --
image kube-apiserver registry.k8s.io/kube-apiserver:v1.0
image kube-controller-manager registry.k8s.io/kube-controller-manager:v1.0
image kube-scheduler registry.k8s.io/kube-scheduler:v0.9
image coredns registry.k8s.io/coredns/coredns:v1
image pause registry.k8s.io/pause:3
-- kubeadm/kustomization.yaml --
resources: [cluster.yaml]
-- kubeadm/cluster.yaml --
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
metadata: {name: c}
kubernetesVersion: v${KUBERNETES_VERSION}
`, `kubeadm/kustomization.yaml: error: kubeadm's ClusterConfiguration: no image registry.k8s.io/etcd is in the Manifest ('kubeadm config images list' prints it)
kubeadm/kustomization.yaml: error: kubeadm's ClusterConfiguration: image registry.k8s.io/kube-scheduler:v1.0 is not in the Manifest (the Manifest has registry.k8s.io/kube-scheduler:v0.9)
kubeadm/kustomization.yaml: error: kubeadm's ClusterConfiguration: image registry.k8s.io/kube-proxy:v1.0 is not in the Manifest (add to the Manifest: image <id> registry.k8s.io/kube-proxy:v1.0)
Manifest:3:1: warning: nothing in the add-on refers to image registry.k8s.io/kube-scheduler:v0.9, neither by its reference nor by its id kube-scheduler (keep it if a program of the add-on starts pods of it by itself, and name it in a comment there; otherwise remove it)`,
		},
		"files that versions share": {
			"-- Manifest --\n-- ../template/yaml/pod.yaml --\n" + pod + "example.org/app:1\n-- yaml --\n-> ../template/yaml",
			"yaml/pod.yaml:9:12: error: Pod web/app, container main: image example.org/app:1 is not in the Manifest (add to the Manifest: image <id> example.org/app:1)",
		},
		"files that are no objects": {
			"-- Manifest --\n-- values.yaml --\nimage: example.org/app:1\n-- addon.yaml --\ndescription: x", "",
		},
		"a file that is not YAML": {
			"-- Manifest --\n-- a.yaml --\nkind: [",
			"a.yaml: warning: is not YAML before its hook runs, and was not checked: yaml: line 3: did not find expected node content",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := check(t, addOn(t, row.files)); got != row.want {
				t.Errorf("got\n%s\nwant\n%s", got, row.want)
			}
		})
	}
}

func TestLinkOutOfAddOnIsRefused(t *testing.T) {
	dir := addOn(t, "-- Manifest --\n-- secret --\n-> /etc/hostname")
	if _, err := references.Check(t.Context(), dir, nil); err == nil || !strings.Contains(err.Error(), "same add-on") {
		t.Errorf("got %v", err)
	}
}

// TestCatalogueCarriesImagesItRefersTo holds every add-on that ships against its Manifest.
func TestCatalogueCarriesImagesItRefersTo(t *testing.T) {
	manifests, err := filepath.Glob("../../addons/*/*/Manifest")
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no add-ons: %v", err)
	}
	for _, name := range manifests {
		if got := check(t, filepath.Dir(name)); got != "" {
			t.Errorf("%s:\n%s", filepath.Dir(name), got)
		}
	}
}
