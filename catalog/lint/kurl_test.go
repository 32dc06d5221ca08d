package lint

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

// TestKurlAddOnsPassLint lints eleven of kURL's own add-ons, unchanged. A person compared every finding with their files.
func TestKurlAddOnsPassLint(t *testing.T) {
	t.Chdir(upstreamcases.KurlAddOns(t))
	const (
		noMeta   = "/addon.yaml: warning: the add-on has no addon.yaml"
		noPrefix = " does not begin with the add-on's name"
		nothing  = "nothing brings the program "
	)
	want := []string{
		"cert-manager/1.21.0" + noMeta, // no add-on of kURL's has one
		// The controller starts pods of this image for each HTTP-01 challenge; the Manifest has the three others of cert-manager.
		"cert-manager/1.21.0/kustomization.yaml: warning: Deployment cert-manager/cert-manager, container cert-manager-controller, argument --acme-http01-solver-image: quay.io/jetstack/cert-manager-acmesolver:v1.21.0 looks like an image",
		"containerd/2.2.6" + noMeta,
		// It replaces runc at $(which runc). RHEL's minimal install has no which.
		"containerd/2.2.6/install.sh:51:87: warning: " + nothing + "which",
		"containerd/2.2.6/install.sh:587:10: warning: function require_os_containerd" + noPrefix, // and so on: a function of that name in another add-on replaces it
		"containerd/2.2.6/install.sh:594:10: warning: function require_centos8_containerd" + noPrefix,
		// The kubelet has no --container-runtime since 1.27, and does not start with it. kURL and Sealift leave it out.
		"containerd/2.2.6/kubeadm-init-config-v1beta2.yaml:1:1: warning: nodeRegistration.kubeletExtraArgs.container-runtime of InitConfiguration",
		"containerd/2.2.6/kubeadm-join-config-v1beta2.yaml:1:1: warning: nodeRegistration.kubeletExtraArgs.container-runtime of JoinConfiguration",
		"contour/1.32.1" + noMeta,
		"ekco/0.28.14" + noMeta,
		// It asks the internal load balancer for its health, until it answers or 300 s are over.
		"ekco/0.28.14/install.sh:292:8: warning: " + nothing + "curl",
		"flannel/0.28.7" + noMeta,
		// KURL_UTIL_IMAGE is kURL's own image, which is beside add-ons in kURL's bundles and in no Manifest. Before a move from
		// Weave, a pod of it on each node asks those on the others.
		"flannel/0.28.7/install.sh:115:73: warning: option --image is $KURL_UTIL_IMAGE",
		// It looks for VMware's network card; without lspci it assumes that there is none.
		"flannel/0.28.7/install.sh:167:8: warning: " + nothing + "lspci",
		"flannel/0.28.7/install.sh:380:10: warning: function weave_to_flannel" + noPrefix,
		"flannel/0.28.7/install.sh:555:10: warning: function weave_flush_iptables" + noPrefix,
		"flannel/0.28.7/install.sh:569:10: warning: function remove_weave" + noPrefix,
		"goldpinger/3.11.2-1.1.2" + noMeta,
		"goldpinger/3.11.2-1.1.2/install.sh:44:10: warning: function is_old_chart" + noPrefix,
		"metrics-server/0.8.1" + noMeta,
		"minio/2025-10-15T17-29-55Z" + noMeta,
		"minio/2025-10-15T17-29-55Z/install.sh:143:10: warning: function should_reset_minio_config" + noPrefix,
		"minio/2025-10-15T17-29-55Z/install.sh:168:10: warning: function reset_minio_config" + noPrefix,
		"minio/2025-10-15T17-29-55Z/install.sh:186:10: warning: function write_minio_keys_sha_file" + noPrefix,
		// It waits until MinIO answers, with only curl.
		"minio/2025-10-15T17-29-55Z/install.sh:230:5: warning: " + nothing + "curl",
		"minio/2025-10-15T17-29-55Z/install.sh:284:10: warning: function allow_pvc_resize" + noPrefix,
		// One of its pods checks the disk usage of OpenEBS before MinIO's data move.
		"minio/2025-10-15T17-29-55Z/install.sh:553:75: warning: option --openebs-image is $KURL_UTIL_IMAGE",
		"openebs/4.5.1" + noMeta,
		// Volumes of Rook are copied by rsync in a pod of it.
		"openebs/4.5.1/install.sh:94:144: warning: option --rsync-image is $KURL_UTIL_IMAGE",
		"openebs/4.5.1/install.sh:239:10: warning: function secure_openebs" + noPrefix,
		"registry/3.1.1" + noMeta,
		"registry/3.1.1/install.sh:121:10: warning: function regsitry_init_service" + noPrefix,
		// It makes the key and the certificate of the registry.
		"registry/3.1.1/install.sh:274:5: warning: " + nothing + "openssl",
		"registry/3.1.1/install.sh:297:10: warning: function determine_registry_pvc_size" + noPrefix,
		"velero/1.18.2" + noMeta,
		// Velero gets four plugins, the last of them this image: without it, a plugin without a name.
		"velero/1.18.2/install.sh:204:19: warning: one of several images is $KURL_UTIL_IMAGE",
		"velero/1.18.2/install.sh:518:10: warning: function determine_velero_pvc_size" + noPrefix,
		// The pod that moves snapshots to object storage. Only registry's Manifest has its image, and velero may be installed without
		// registry.
		"velero/1.18.2/tmpl-s3-migration-deployment-patch.yaml:14:16: warning: Deployment sealift-variable-velero-namespace/velero, container migrate-s3: image kurlsh/s3cmd:20260224-0d00dd0 is not in the Manifest",
	}
	got := lintAll(t, "addons")
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("not found: %s", want[i])
		case i >= len(want):
			t.Errorf("not expected: %s", got[i])
		case !strings.HasPrefix(got[i], "addons/"+want[i]):
			t.Fatalf("got  %s\nwant addons/%s", got[i], want[i])
		}
	}
}
