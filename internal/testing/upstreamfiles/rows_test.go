package upstreamfiles

import (
	"github.com/sealift/sealift/internal/releases"
)

// row is what upstream gives its users to install: a chart, a kustomization, or manifests.
type row struct {
	name   string
	module string // path@version
	// One of these is set. Paths are those of the module.
	chart         string   // folder
	kustomization string   // folder
	manifests     []string // files, or patterns of path.Match
	// values of the chart, as YAML.
	values string
	// absent are dependencies of the chart that lie in another repository. Upstream's package has them, the module does not; the values switch
	// them off.
	absent []string
	// fill replaces what upstream fills in when it installs the manifests, in pairs.
	fill []string
	// namespace of the release, or one that manifests expect to exist.
	namespace string
	// refused is why nothing can be installed: part of an error.
	refused string
	// unserved is why an object is not applied: part of the error of each try.
	unserved string
	// images are the numbers of references by rule, in the form that count prints.
	images string
	// unlike are texts that look like images, but are not.
	unlike []string
}

// current is a module at the version that the demo installs.
func current(module, name string) string { return module + "@v" + releases.Current(name).Version }

// labRows are of modules that every lab has: 'make test' runs them. Few make a namespace, whose deletion takes five seconds.
func labRows() []row {
	kubernetes := current("k8s.io/kubernetes", "kubernetes")
	return []row{
		{name: "flannel, chart", module: current("github.com/flannel-io/flannel", "flannel"), images: "2 container, 1 value", chart: "chart/kube-flannel", namespace: "kube-flannel"},
		{name: "local-path-provisioner, chart", module: current("github.com/rancher/local-path-provisioner", "local-path-provisioner"), images: "1 argument, 1 container, 1 text", chart: "deploy/chart/local-path-provisioner", namespace: "kube-system"},
		{name: "metrics-server, chart", module: current("sigs.k8s.io/metrics-server", "metrics-server"), images: "1 container, 1 value", chart: "charts/metrics-server", namespace: "kube-system"},
		{name: "metrics-server, kustomization", module: current("sigs.k8s.io/metrics-server", "metrics-server"), images: "1 container", kustomization: "manifests/overlays/release"},
		{name: "versitygw, chart", module: current("github.com/versity/versitygw", "versitygw"), images: "1 container", chart: "chart", namespace: "default", values: "auth: {accessKey: a, secretKey: b}\n"},
		{name: "node-local-dns", module: kubernetes, images: "1 container", manifests: []string{"cluster/addons/dns/nodelocaldns/*.yaml"}, fill: []string{"__PILLAR__DNS__SERVER__", "10.96.0.10",
			"__PILLAR__LOCAL__DNS__", "169.254.20.10", "__PILLAR__DNS__DOMAIN__", "cluster.local"}},
		{name: "volume snapshots", module: kubernetes, images: "1 container", manifests: []string{"cluster/addons/volumesnapshots/crd/*.yaml", "cluster/addons/volumesnapshots/volume-snapshot-controller/*.yaml"}},
		{name: "ip-masq-agent", module: kubernetes, images: "1 container", manifests: []string{"cluster/addons/ip-masq-agent/*.yaml"}},
	}
}
