package airgap_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/distribution/reference"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/mirror"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// kurlInstaller has kURL's format. Only Kubernetes comes from the shipped catalogue.
var kurlInstaller = `apiVersion: cluster.kurl.sh/v1beta1
kind: Installer
metadata: {name: 1a2b3c4}
spec:
  kubernetes: {version: ` + current + `}
  containerd: {version: 2.2.6}
  flannel: {version: 0.28.7}
  openebs: {version: 4.5.1, isLocalPVEnabled: true, localPVStorageClassName: default}
  minio: {version: 2025-10-15T17-29-55Z, claimSize: 1Gi}
  registry: {version: 3.1.1}
  certManager: {version: 1.21.0}
  contour: {version: 1.32.1}
  metricsServer: {version: 0.8.1}
  goldpinger: {version: 3.11.2-1.1.2}
`

// kurl goes from kURL's own add-ons, all eleven unchanged, to the bundle of kurlInstaller.
func kurl(t *testing.T) delivery {
	t.Helper()
	short.Skip(t, "a host of the lab")
	return deliveries.once(t, "kurl", func(r delivery) {
		r.kurlPackages(t, kurlAddOns(t), current)
		r.bundle(t, kurlInstaller)
	})
}

// kurlAddOns are the folders of kURL's own add-ons.
func kurlAddOns(t *testing.T) []string {
	t.Helper()
	addOns, err := filepath.Glob(filepath.Join(upstreamcases.KurlAddOns(t), "addons/*/[0-9]*"))
	if err != nil || len(addOns) != 11 {
		t.Fatalf("kURL's add-ons: %q, %v", addOns, err)
	}
	return addOns
}

// kurlPackages builds add-ons for Ubuntu, with releases of Kubernetes from the catalogue that ships.
func (r delivery) kurlPackages(t *testing.T, addOns []string, releases ...string) {
	t.Helper()
	lab := mirror.Options{Images: upstream.KurlImages(), Downloads: upstream.KurlDownloads()}
	args := []string{"build", "--out", r.packages, "--target", ubuntu, "--config", r.config, "--cache", r.cache}
	for _, release := range releases {
		lab.Images = append(lab.Images, upstream.Images("v"+release)...)
		lab.Downloads = append(lab.Downloads, upstream.Downloads("v"+release)...)
		args = append(args, "addons/kubernetes/"+release)
	}
	r.mirrored(t, lab, func() {
		r.ubuntuTarget(t)
		r.run(t, append(args, addOns...)...)
		r.programs(t, ubuntu, "curl", "openssl")
	})
}

// TestKurlAddOnsMakeCluster installs kURL's own add-ons, with kURL's own containerd, on two hosts that call themselves Ubuntu
// 24.04 and have curl and openssl, as a server of Ubuntu has. The second one has nothing else but the command to join. All pods that
// the add-ons make can run here; for those whose image is a stand-in of the lab, the log says why.
func TestKurlAddOnsMakeCluster(t *testing.T) {
	t.Parallel()
	r := kurl(t)
	first, worker := ubuntuHost(t, r.usb, r.debs()), ubuntuHost(t, r.debs())
	first.makesCluster(worker)
	first.allPodsReady()
	first.standIns()
	first.pulled()
	t.Run("registry", func(t *testing.T) { kurlRegistry(node{first.Host, t}, node{worker.Host, t}) })
	t.Run("test grid", func(t *testing.T) { kurlFunctions(node{first.Host, t}) })
	t.Run("contour", func(t *testing.T) { kurlProxy(node{first.Host, t}) })
	t.Run("metrics", func(t *testing.T) {
		node{first.Host, t}.must("for i in $(seq 300); do " + kubectl + "top nodes && exit 0; sleep 1; done; exit 1")
	})
	t.Run("second run", func(t *testing.T) { secondRun(node{first.Host, t}) })
}

// ubuntuHost boots a host that calls itself Ubuntu 24.04 and has the Debian packages of its disks.
func ubuntuHost(t *testing.T, disks ...string) node {
	t.Helper()
	n := node{lab.Host(t, host.Spec{USB: disks}), t}
	n.must(osRelease)
	n.must("dpkg -i /media/usb*/*.deb 2>&1")
	n.refuses("ip route get 1.1.1.1", 2, "unreachable")
	return n
}

// makesCluster installs from the first disk, and lets a worker join.
func (n node) makesCluster(worker node) {
	n.t.Helper()
	if out := n.must(install); !strings.Contains(out, "done: ") {
		n.t.Errorf("the install ended without saying so:\n%s", out)
	}
	if out := worker.must(n.joinCommand("")); !strings.Contains(out, "done: ") {
		n.t.Errorf("the join ended without saying so:\n%s", out)
	}
	n.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=300s")
	if got := n.must(kubectl + "get nodes -o wide --no-headers"); strings.Count(got, " containerd://2.2.6") != 2 {
		n.t.Errorf("not two nodes with kURL's containerd:\n%s", got)
	}
}

// allPodsReady waits until all pods run and are Ready, or have done their work, in all namespaces that the add-ons make.
func (n node) allPodsReady() {
	n.t.Helper()
	const list = kubectl + `get pods -A --field-selector=status.phase!=Succeeded -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name} {.status.phase}` +
		` {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}' >/tmp/pods`
	n.must("for i in $(seq 300); do " + list + " && test -s /tmp/pods && ! grep -v ' Running True$' /tmp/pods >/tmp/waiting && exit 0; sleep 1; done; cat /tmp/waiting; " +
		kubectl + "get events -A --field-selector type!=Normal --sort-by=.lastTimestamp | tail -30; exit 1")
	pods := n.must(kubectl + "get pods -A -o wide --no-headers")
	for _, name := range []string{
		"kube-flannel/kube-flannel-ds", "openebs/openebs-localpv-provisioner", "minio/minio", "kurl/registry", "kurl/goldpinger",
		"cert-manager/cert-manager", "projectcontour/contour", "projectcontour/envoy", "kube-system/metrics-server",
	} {
		namespace, pod, _ := strings.Cut(name, "/")
		if !slices.ContainsFunc(strings.Split(pods, "\n"), func(line string) bool {
			f := strings.Fields(line)
			return len(f) > 1 && f[0] == namespace && strings.HasPrefix(f[1], pod)
		}) {
			n.t.Errorf("no pod of %s:\n%s", name, pods)
		}
	}
}

// standIns logs which pods run a program other than their image's, and why.
func (n node) standIns() {
	n.t.Helper()
	reasons := map[string]string{}
	for _, image := range upstream.KurlImages() {
		reasons[image.Ref] = image.StandIn
	}
	var list struct {
		Items []struct {
			Metadata struct{ Namespace, Name string }
			Spec     struct{ Containers []struct{ Image string } }
		}
	}
	if err := json.Unmarshal([]byte(n.must(kubectl+"get pods -A -o json")), &list); err != nil {
		n.t.Fatal(err)
	}
	for _, pod := range list.Items {
		for _, container := range pod.Spec.Containers {
			full, err := reference.ParseNormalizedNamed(container.Image)
			if err != nil {
				n.t.Fatal(err)
			}
			if reason := reasons[full.String()]; reason != "" {
				n.t.Logf("%s/%s: %s is a stand-in: %s", pod.Metadata.Namespace, pod.Metadata.Name, container.Image, reason)
			}
		}
	}
}

// kurlRegistry pushes an image into the cluster's registry, whose blobs are in the object store, with the password that the add-on made.
// A pod on each node runs the image: its kubelet pulls it with the add-on's Secret, and trusts the registry by the cluster's CA.
func kurlRegistry(first, worker node) {
	first.t.Helper()
	image := strings.TrimSpace(first.must(kubectl+"--namespace kurl get service registry -o jsonpath={.spec.clusterIP}")) + "/lab/pause:1"
	user := "--user kurl:" + strings.TrimSpace(first.must(kubectl+`get secret registry-creds -o jsonpath='{.data.\.dockerconfigjson}' | base64 -d | sed 's/.*"password":"\([^"]*\)".*/\1/'`))
	const push = "ctr -n k8s.io images push --local --hosts-dir /etc/containerd/certs.d --platform linux/amd64 "
	first.must("ctr -n k8s.io images tag " + pauseImage + " " + image)
	first.refuses(push+image, 1, "")
	first.must(push + user + " " + image)
	for _, n := range []node{first, worker} {
		first.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: pulls-on-%[1]s, labels: {app: pulls}},
spec: {nodeName: %[1]s, imagePullSecrets: [{name: registry-creds}], containers: [{name: pause, image: "%[2]s", imagePullPolicy: Always}]}}`, n.Name(), image))
	}
	first.must(kubectl + "wait --for=condition=Ready pods --selector app=pulls --timeout=120s || { " + kubectl + "describe pods --selector app=pulls; exit 1; }")
	first.must(kubectl + "delete pods --selector app=pulls --now")
}

// kurlFunctions runs what kURL's own files of tests call, with the grid's functions.
func kurlFunctions(n node) {
	n.t.Helper()
	functions, err := os.ReadFile(filepath.Join(repository, "testgrid/runner/testhelpers.sh"))
	if err != nil {
		n.t.Fatal(err)
	}
	out := n.must("mkdir -p /opt/kurl-testgrid; cat >/opt/kurl-testgrid/testhelpers.sh <<'END_OF_FUNCTIONS'\n" + string(functions) + "END_OF_FUNCTIONS\n" +
		`export KUBECONFIG=/etc/kubernetes/admin.conf PATH=/usr/local/bin:$PATH; cd /root; exec bash -euxo pipefail 2>&1 <<'END'
source /opt/kurl-testgrid/testhelpers.sh
is_ubuntu_2404
ubuntu_2404_install_host_packages curl openssl
minio_object_store_info
validate_read_write_object_store rwtest testfile.txt
wait_for_minio_ready
create_deployment_with_mounted_volume migration-test default /data docker.io/library/registry:3.1.1
create_random_file_and_upload_to_deployment migration-test default ./test.data /data/test.data
download_file_from_deployment_and_compare migration-test default ./test.data /data/test.data
pvc_uses_provisioner migration-test default openebs
test_push_image_to_registry
test_pull_image_from_registry
( pvc_uses_provisioner migration-test default rook ) && exit 3
echo x >>test.data
( download_file_from_deployment_and_compare migration-test default ./test.data /data/test.data ) && exit 4
kubectl delete deployment,persistentvolumeclaim migration-test
END`)
	if !strings.Contains(out, "failed: the claim migration-test in default is of ") || !strings.Contains(out, "failed: /data/test.data in pod/migration-test-") {
		n.t.Errorf("checks that must fail:\n%s", out)
	}
}

// kurlProxy has Contour itself judge a route to a Service that exists and one to a Service that does not.
func kurlProxy(n node) {
	n.t.Helper()
	for service, want := range map[string]string{"kubernetes": "valid", "absent": "invalid"} {
		n.apply(fmt.Sprintf(`{apiVersion: projectcontour.io/v1, kind: HTTPProxy, metadata: {name: to-%[1]s, namespace: default},
spec: {virtualhost: {fqdn: %[1]s.example.org}, routes: [{services: [{name: %[1]s, port: 443}]}]}}`, service))
		n.must(kubectl + "wait httpproxy/to-" + service + " --for=jsonpath='{.status.currentStatus}'=" + want + " --timeout=120s")
	}
	n.must(kubectl + "delete httpproxies --all")
}

// apply applies one YAML document.
func (n node) apply(document string) {
	n.t.Helper()
	n.must(kubectl + "apply -f - <<'EOF'\n" + document + "\nEOF")
}
