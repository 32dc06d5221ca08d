//go:build grid

package upstreamfiles

import (
	"os"
	"testing"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// TestUpstreamFilesAreCarriedAndApplied downloads modules that nothing else needs.
func TestUpstreamFilesAreCarriedAndApplied(t *testing.T) {
	for _, r := range gridRows() {
		t.Run(r.name, r.check)
	}
}

// gridRows are of modules that nothing else needs: 'make grid' downloads them.
func gridRows() []row {
	const (
		argo    = "github.com/argoproj/argo-cd/v3@v3.5.7"
		flux    = "github.com/fluxcd/flux2/v2@v2.9.5"
		gateway = "sigs.k8s.io/gateway-api@v1.6.3"
		keda    = "github.com/kedacore/keda/v2@v2.21.0"
		kyverno = "github.com/kyverno/kyverno@v1.19.1"
	)
	kubernetes := "k8s.io/kubernetes@" + upstream.Releases()[len(upstream.Releases())-1]
	gatekeeper := "github.com/open-policy-agent/gatekeeper/v3@v" + releases.Newest("gatekeeper").Version
	velero := "github.com/vmware-tanzu/velero@v" + releases.Newest("velero").Version
	descheduler := "sigs.k8s.io/descheduler@v" + releases.Newest("descheduler").Version
	metallb := "go.universe.tf/metallb@v" + releases.Newest("metallb").Version
	addOns := "cluster/addons/"
	return []row{
		{name: "flannel, manifest", module: current("github.com/flannel-io/flannel", "flannel"), images: "2 container", manifests: []string{"Documentation/kube-flannel.yml"}},
		{name: "local-path-provisioner, kustomization", module: current("github.com/rancher/local-path-provisioner", "local-path-provisioner"), images: "1 container, 1 text", kustomization: "deploy"},
		{name: "metrics-server, replicas", module: current("sigs.k8s.io/metrics-server", "metrics-server"), images: "1 container", kustomization: "manifests/overlays/release-ha-1.21+"},
		{name: "metrics-server, replicas before Kubernetes 1.21", module: current("sigs.k8s.io/metrics-server", "metrics-server"), images: "1 container", kustomization: "manifests/overlays/release-ha",
			unserved: `does not serve kind PodDisruptionBudget in "policy/v1beta1"`},
		{name: "cert-manager, chart", module: "github.com/cert-manager/cert-manager@v" + releases.Newest("cert-manager").Version, images: "1 argument, 4 container", chart: "deploy/charts/cert-manager", values: "crds: {enabled: true}\n"},
		{name: "cert-manager, chart of the add-on", module: "github.com/cert-manager/cert-manager@v" + releases.Newest("cert-manager").Version, images: "1 argument, 3 container", chart: "deploy/charts/cert-manager",
			values: valuesOf("cert-manager"), namespace: "cert-manager"},
		{name: "metallb, chart", module: metallb, images: "4 container, 2 value", chart: "charts/metallb"},
		{name: "metallb, chart without FRR", module: metallb, images: "2 container, 3 value", chart: "charts/metallb", values: "frrk8s: {enabled: false}\nspeaker: {frr: {enabled: false}}\n"},
		{name: "metallb, kustomization", module: metallb, images: "2 container", kustomization: "config/native"},
		{name: "metallb, native", module: metallb, images: "2 container", manifests: []string{"config/manifests/metallb-native.yaml"}},
		{name: "metallb, FRR", module: metallb, images: "3 container", manifests: []string{"config/manifests/metallb-frr.yaml"}},
		{name: "metallb, FRR-K8s", module: metallb, images: "4 container", manifests: []string{"config/manifests/metallb-frr-k8s.yaml"}},
		{name: "kyverno, chart", module: kyverno, images: "5 container, 2 value", chart: "charts/kyverno", absent: []string{"kyverno-api", "openreports", "reports-server"}},
		{name: "kyverno-policies, chart", module: kyverno, chart: "charts/kyverno-policies", unserved: "the cluster does not serve kind"},
		{name: "gatekeeper, chart", module: gatekeeper, images: "3 container, 1 value", chart: "charts/gatekeeper"},
		{name: "gatekeeper, manifest", module: gatekeeper, images: "1 container", manifests: []string{"deploy/gatekeeper.yaml"}},
		{name: "descheduler, chart", module: descheduler, images: "1 container", chart: "charts/descheduler"},
		{name: "descheduler, CronJob", module: descheduler, images: "1 container", kustomization: "kubernetes/cronjob"},
		{name: "descheduler, Deployment", module: descheduler, images: "1 container", kustomization: "kubernetes/deployment"},
		{name: "descheduler, Job", module: descheduler, images: "1 container", kustomization: "kubernetes/job"},
		{name: "sealed-secrets, chart", module: "github.com/bitnami-labs/sealed-secrets@v0.40.0", images: "1 container", chart: "helm/sealed-secrets"},
		{name: "traefik, chart", module: "github.com/traefik/traefik-helm-chart@v41.6.0+incompatible", images: "1 container", chart: "traefik"},
		{name: "argo-cd", module: argo, images: "3 container", manifests: []string{"manifests/install.yaml"}},
		{name: "argo-cd, replicas", module: argo, images: "4 container", manifests: []string{"manifests/ha/install.yaml"}},
		{name: "argo-cd, core", module: argo, images: "2 container", manifests: []string{"manifests/core-install.yaml"}},
		{name: "argo-cd, kustomization", module: argo, images: "3 container", kustomization: "manifests/cluster-install"},
		{name: "argo-cd, kustomization with replicas", module: argo, images: "4 container", kustomization: "manifests/ha/cluster-install"},
		{name: "argo-cd, hydrator", module: argo, images: "3 container", manifests: []string{"manifests/install-with-hydrator.yaml"}},
		{name: "velero, definitions", module: velero, manifests: []string{"config/crd/v1/bases/*.yaml", "config/crd/v2alpha1/bases/*.yaml"}},
		{name: "flux", module: flux, kustomization: "manifests/install", refused: "nothing is fetched while building"},
		{name: "flux, policies", module: flux, kustomization: "manifests/policies", namespace: "flux-system"},
		{name: "flux, roles", module: flux, kustomization: "manifests/rbac", namespace: "flux-system"},
		{name: "volume snapshots, of the add-on", module: "github.com/kubernetes-csi/external-snapshotter/client/v8@v" + releases.Newest("volume-snapshots").Version, kustomization: "config/crd"},
		{name: "keda", module: keda, images: "3 container", kustomization: "config/default"},
		{name: "keda, minimal", module: keda, images: "2 container", kustomization: "config/minimal"},
		{name: "gateway-api, standard", module: gateway, kustomization: "config/crd"},
		{name: "gateway-api, experimental", module: gateway, kustomization: "config/crd/experimental"},
		{name: "Calico policies", module: kubernetes, images: "5 container", manifests: []string{addOns + "calico-policy-controller/*.yaml"}},
		{name: "kube-network-policies", module: kubernetes, images: "1 container", manifests: []string{addOns + "kube-network-policies/*.yaml"}},
		{name: "CoreDNS", module: kubernetes, images: "1 container", manifests: []string{addOns + "dns/coredns/coredns.yaml.base"}, fill: []string{"__DNS__SERVER__", "10.96.0.10",
			"__DNS__DOMAIN__", "cluster.local", "__DNS__MEMORY__LIMIT__", "170Mi"}},
		{name: "kube-dns", module: kubernetes, images: "3 container", manifests: []string{addOns + "dns/kube-dns/kube-dns.yaml.base"}, fill: []string{"__DNS__SERVER__", "10.96.0.10",
			"__DNS__DOMAIN__", "cluster.local", "__DNS__MEMORY__LIMIT__", "170Mi"}},
		{name: "DNS autoscaler", module: kubernetes, images: "1 container", manifests: []string{addOns + "dns-horizontal-autoscaler/*.yaml"}, fill: []string{"{{.Target}}", "deployment/coredns"}},
		{name: "metrics-server of cluster/addons", module: kubernetes, images: "2 container", manifests: []string{addOns + "metrics-server/*.yaml"}},
		{name: "cloud controller roles", module: kubernetes, manifests: []string{addOns + "cloud-controller-manager/*.yaml"}},
		{name: "fluentd", module: kubernetes, images: "4 container", manifests: []string{addOns + "fluentd-gcp/*.yaml"}, fill: []string{
			"{{ fluentd_gcp_yaml_version }}", "v3.2.0", "{{ fluentd_gcp_version }}", "1.6.17", "{{ fluentd_gcp_configmap_name }}", "fluentd-gcp-config",
			"{{ prometheus_to_sd_prefix }}", "custom.googleapis.com", "{{ prometheus_to_sd_endpoint }}", "https://monitoring.googleapis.com/"}},
		{name: "metadata agent", module: kubernetes, images: "1 container", manifests: []string{addOns + "metadata-agent/stackdriver/*.yaml"}, fill: []string{
			"{{ metadata_agent_cpu_request }}", "40m", "{{ metadata_agent_memory_request }}", "50Mi",
			"{{ metadata_agent_cluster_level_cpu_request }}", "40m", "{{ metadata_agent_cluster_level_memory_request }}", "50Mi"}},
		{name: "metadata proxy", module: kubernetes, images: "2 container", manifests: []string{addOns + "metadata-proxy/gce/*.yaml"}},
		{name: "storage class", module: kubernetes, manifests: []string{addOns + "storage-class/local/*.yaml"}},
		{name: "roles", module: kubernetes, manifests: []string{addOns + "rbac/[ck]*/*.yaml", addOns + "rbac/legacy-kubelet-user/*.yaml", addOns + "rbac/*/*/*.yaml"}},
		{name: "GLBC", module: kubernetes, images: "1 container", manifests: []string{addOns + "cluster-loadbalancing/glbc/*.yaml"}},
	}
}

// valuesOf are those that an add-on of the catalogue gives its chart.
func valuesOf(name string) string {
	text, err := os.ReadFile("../../../addons/" + name + "/" + releases.Newest(name).Version + "/charts/" + name + "-values.yaml")
	if err != nil {
		panic(err) // it is in the repository
	}
	return string(text)
}
