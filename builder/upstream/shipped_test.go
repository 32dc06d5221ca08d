package upstream_test

import (
	"slices"
	"testing"

	"github.com/sealift/sealift/builder/upstream"
)

// TestShippedCatalogueIsCompared has upstreams that offer one newer version of everything, by their real names. A release of Kubernetes
// takes what its kubeadm installs.
func TestShippedCatalogueIsCompared(t *testing.T) {
	catalogue, err := upstream.OpenCatalogue("../../addons")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.push(t, "kube-apiserver", "v1.35.4", "v1.36.3", "v1.37.2", "v1.999.0")
	w.push(t, "descheduler/descheduler", "v99.0.0", "v99.0.0-rc.0")
	w.push(t, "flannel-io/flannel", "v99.0.0", "v99.1.0-amd64")
	w.push(t, "rancher/local-path-provisioner", "v99.0.0", "v99.1.0-arm64", "master-head")
	w.push(t, "library/busybox", "99.0.0", "99.1.0-musl", "stable", "100.0")
	w.push(t, "networking/kube-network-policies", "v99.0.0")
	w.push(t, "metrics-server/metrics-server", "v99.0.0")
	w.push(t, "dns/k8s-dns-node-cache", "99.0.0", "99.1.0-rc.1")
	w.push(t, "sealift/operator", "99.0.0")
	w.push(t, "sig-storage/snapshot-controller", "v99.0.0", "v99.1.0-rc1")
	w.push(t, "versity/versitygw", "v99.0.0")
	w.push(t, "versity/versitygw/charts/versitygw", "99.0.0")
	w.push(t, "library/registry", "99.0.0", "99.0", "latest")
	w.push(t, "library/traefik", "v99.0.0", "v99.1.0-rc.1", "latest", "v99.0")
	constants := "const (\n\tDefaultEtcdVersion = \"3.7.0-0\"\n\tCoreDNSVersion = \"v1.14.6\"\n\t// PauseVersion indicates the default pause image version for kubeadm\n\tPauseVersion = \"3.10.2\"\n)\n"
	w.put(map[string]string{
		"api.github.com/repos/containerd/containerd/releases":                                            releasePage("v99.0.0", "api/v100.0.0"),
		"api.github.com/repos/opencontainers/runc/releases":                                              releasePage("v99.0.0", "v100.0.0-rc.1?"),
		"api.github.com/repos/containernetworking/plugins/releases":                                      releasePage("v99.0.0"),
		"api.github.com/repos/flannel-io/cni-plugin/releases":                                            releasePage("v99.0.0-flannel1", "v99.0.0-flannel2"),
		"api.github.com/repos/prometheus/prometheus/releases":                                            releasePage("v99.0.0", "v99.1.0-rc.1?"),
		"api.github.com/repos/prometheus/alertmanager/releases":                                          releasePage("v99.0.0"),
		"api.github.com/repos/prometheus/node_exporter/releases":                                         releasePage("v99.0.0"),
		"api.github.com/repos/vmware-tanzu/velero/releases":                                              releasePage("v99.0.0", "v99.1.0-rc.1?"),
		"api.github.com/repos/vmware-tanzu/velero-plugin-for-aws/releases":                               releasePage("v99.0.0"),
		"api.github.com/repos/kubernetes-sigs/gateway-api/releases":                                      releasePage("v99.0.0", "monthly-2099.01"),
		"charts.jetstack.io/index.yaml":                                                                  "entries: {cert-manager: [{version: v99.0.0, urls: [a]}, {version: v99.1.0-alpha.0, urls: [b]}]}\n",
		"traefik.github.io/charts/index.yaml":                                                            "entries: {traefik: [{version: 99.0.0, urls: [a]}]}\n",
		"kubernetes-sigs.github.io/descheduler/index.yaml":                                               "entries: {descheduler: [{version: 99.0.0, urls: [a]}]}\n",
		"open-policy-agent.github.io/gatekeeper/charts/index.yaml":                                       "entries: {gatekeeper: [{version: 99.0.0, urls: [a]}, {version: 99.1.0-beta.0, urls: [b]}]}\n",
		"metallb.github.io/metallb/index.yaml":                                                           "entries: {metallb: [{version: 99.0.0, urls: [a]}, {version: 100.0.0, urls: [b], deprecated: true}]}\n",
		"endoflife.date/api/kubernetes.json":                                                             `[{"cycle": "1.35", "eol": "2027-02-28"}]`,
		"endoflife.date/api/containerd.json":                                                             `[{"cycle": "2.2", "eol": true}]`,
		"raw.githubusercontent.com/kubernetes/kubernetes/v1.37.2/cmd/kubeadm/app/constants/constants.go": constants,
	})
	rows, err := w.source(t).Outdated(t.Context(), catalogue, upstream.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var outdated []string
	for _, r := range rows {
		if r.Error != "" || r.Status == upstream.Unruled || r.Status == upstream.Failed {
			t.Errorf("%+v", r)
		}
		if r.Status == upstream.Outdated {
			outdated = append(outdated, r.AddOn+" "+r.Parameter+" "+r.Newest)
		}
	}
	for _, want := range []string{
		"cert-manager VERSION 99.0.0", "containerd RUNC v99.0.0", "containerd VERSION 99.0.0", "descheduler CHART 99.0.0", "descheduler VERSION 99.0.0", "flannel CNI_PLUGIN v99.0.0-flannel2", "flannel VERSION 99.0.0", "gatekeeper VERSION 99.0.0", "kube-network-policies BUSYBOX 99.1.0", "kube-network-policies VERSION 99.0.0", "kubernetes CNI_PLUGINS v99.0.0",
		"kubernetes VERSION 1.999.0", "local-path-provisioner BUSYBOX 99.0.0", "local-path-provisioner VERSION 99.0.0", "metallb VERSION 99.0.0", "metrics-server VERSION 99.0.0", "node-local-dns VERSION 99.0.0", "object-store CHART 99.0.0", "object-store VERSION 99.0.0",
		"operator VERSION 99.0.0", "prometheus ALERTMANAGER 99.0.0", "prometheus NODE_EXPORTER 99.0.0", "prometheus VERSION 99.0.0", "registry VERSION 99.0.0",
		"traefik CHART 99.0.0", "traefik GATEWAY_API 99.0.0", "traefik VERSION 99.0.0", "velero AWS 99.0.0", "velero VERSION 99.0.0", "volume-snapshots VERSION 99.0.0",
	} {
		if !slices.Contains(outdated, want) {
			t.Errorf("%s is not outdated: %q", want, outdated)
		}
	}
	next, err := w.source(t).Next(t.Context(), catalogue, "kubernetes", "1.37.2", nil, upstream.Query{})
	if err != nil || next.Set["ETCD"] != "3.7.0-0" || next.Set["COREDNS"] != "v1.14.6" || next.Set["PAUSE"] != "3.10.2" || next.Set["CNI_PLUGINS"] != "v99.0.0" {
		t.Errorf("got %+v, %v", next, err)
	}
}
