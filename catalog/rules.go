package catalog

// rule is one reason why an Installer cannot work. It applies if all of its conditions hold.
type rule struct {
	key string // key of the add-on or section
	versions
	option string // the rule applies only if this option is set
	// allowed are the values that the option may have. If empty, the option must not be set.
	allowed []string
	// atLeast is the smallest number that the option may have.
	atLeast int64

	with     string // the rule applies only with this add-on
	inWith   versions
	why, fix string
	// warns marks a rule that some clusters do not run into. It refuses nothing.
	warns bool
}

// versions is a range of versions from from up to, but not including, below. An empty bound is open.
type versions struct{ from, below string }

// rules are the combinations that kURL's API and linter refuse, and those that Sealift cannot install. Bounds below
// Sealift's own minimum Kubernetes version are included, because an Installer gets all of its mistakes at once.
func rules() []rule {
	removed := func(key, below, kubernetes, fix string) rule {
		return rule{key: key, versions: versions{below: below}, with: "kubernetes", inWith: versions{from: kubernetes},
			why: "it uses APIs that Kubernetes " + kubernetes + " removed", fix: fix}
	}
	return []rule{
		{key: "kubernetes", versions: versions{below: "1.31"},
			why: "Sealift configures kubeadm with v1beta4, which kubeadm reads from 1.31 on", fix: "use Kubernetes 1.31 or later"},

		{key: "rke2", with: "kubernetes",
			why: "a cluster has one distribution of Kubernetes", fix: "remove rke2"},
		{key: "k3s", with: "kubernetes",
			why: "a cluster has one distribution of Kubernetes", fix: "remove k3s"},

		{key: "docker", with: "kubernetes", inWith: versions{from: "1.24"},
			why: "Kubernetes does not run on Docker from 1.24 on", fix: "use containerd instead"},
		{key: "containerd", versions: versions{below: "1.6"}, with: "kubernetes", inWith: versions{from: "1.26"},
			why: "Kubernetes 1.26 and later need the first version of the CRI, which containerd has from 1.6 on", fix: "use containerd 1.6 or later"},
		{key: "containerd", versions: versions{from: "1.6", below: "1.6.5"}, with: "weave",
			why: "these releases do not work with Weave", fix: "use containerd 1.6.5 or later"},

		removed("calico", "3.9.2", "1.22", "use another pod network, such as flannel"),
		removed("certManager", "1.5", "1.22", "use cert-manager 1.5 or later"),
		removed("contour", "1.7.1", "1.22", "use Contour 1.7.1 or later"),
		removed("longhorn", "1.4", "1.25", "use Longhorn 1.4 or later, or OpenEBS"),
		removed("metricsServer", "0.4", "1.22", "use Metrics Server 0.4 or later"),
		removed("openebs", "2.12.9", "1.22", "use OpenEBS 2.12.9 or later"),
		removed("prometheus", "0.59.1", "1.25", "use Prometheus 0.59.1 or later"),
		removed("rook", "1.9.11", "1.25", "use Rook 1.9.11 or later"),
		removed("velero", "1.6.3", "1.22", "use Velero 1.6.3 or later"),

		{key: "openebs", versions: versions{from: "2.12.9"}, option: "isCstorEnabled",
			why: "the add-on has no cStor from 2.12.9 on", fix: "leave it out, and use isLocalPVEnabled"},
		{key: "prometheus", option: "serviceType", allowed: []string{"ClusterIP", "NodePort"},
			why: "the add-on knows ClusterIP and NodePort", fix: "write one of them, or leave it out"},
		{key: "prometheus", versions: versions{below: "0.48.1"}, option: "serviceType",
			why: "the add-on has it from 0.48.1 on", fix: "use Prometheus 0.48.1 or later"},

		{key: "rook", option: "minimumNodeCount", atLeast: 3,
			why: "Rook keeps data on three nodes or more", fix: "write 3 or more"},
		{key: "rook", versions: versions{below: "1.11.7"}, option: "minimumNodeCount",
			why: "the add-on waits for nodes from 1.11.7 on", fix: "use Rook 1.11.7 or later"},
		{key: "rook", option: "minimumNodeCount", with: "openebs", inWith: versions{below: "3.6.0"},
			why: "OpenEBS makes room for Rook from 3.6.0 on", fix: "use OpenEBS 3.6.0 or later"},

		{key: "kotsadm", versions: versions{from: "1.25.0", below: "1.97"}, with: "kubernetes", inWith: versions{from: "1.29"}, warns: true,
			why: "its hook waits until its pod has four conditions, and pods have five from Kubernetes 1.29 on", fix: "use kotsadm 1.97 or later"},

		{key: "ekco", versions: versions{below: "0.23"}, with: "rook", inWith: versions{from: "1.9"},
			why: "it cannot manage Rook 1.9 and later", fix: "use EKCO 0.23 or later"},
		{key: "ekco", versions: versions{below: "0.22"}, with: "rook", inWith: versions{from: "1.8", below: "1.9"},
			why: "it cannot manage Rook 1.8", fix: "use EKCO 0.22 or later"},
	}
}

// onlyOne are the capabilities that a cluster can have only once, with their names for people.
func onlyOne() map[string]string {
	return map[string]string{ContainerRuntime: "container runtime", PodNetwork: "pod network"}
}

// need is a capability that an add-on of kURL, or an option, requires.
type need struct {
	key        string
	option     string // only with this option is it needed
	unless     string // with this option it is not needed
	capability string
	or         string // a capability that serves as well
	perhaps    string // an add-on that has the capability in some of its packages
	why, fix   string
	warns      bool // it refuses nothing: a cluster may get the capability elsewhere, or another check refuses
}

func needs() []need {
	return []need{
		{key: "kubernetes", capability: ContainerRuntime, warns: true,
			why: "it needs a container runtime, and no add-on here is one", fix: "add containerd"},
		{key: "kubernetes", capability: PodNetwork, warns: true,
			why: "nodes are not Ready without a pod network, and no add-on here is one", fix: "add flannel"},
		{key: "kurl", option: "ipv6", capability: PodNetworkIPv6, perhaps: "flannel",
			why: "no pod network here knows IPv6", fix: "use the flannel of Sealift's catalogue, or leave out kurl.ipv6"},
		{key: "kurl", option: "dualStack", capability: PodNetworkDual, perhaps: "flannel",
			why: "no pod network here knows IPv4 and IPv6 at once", fix: "use the flannel of Sealift's catalogue, or leave out kurl.dualStack"},
		{key: "kotsadm", capability: ObjectStore, unless: "disableS3",
			why: "it keeps its data in an object store, and no add-on here has one", fix: "add minio or rook, or set kotsadm.disableS3"},
		{key: "registry", capability: ObjectStore, or: Storage, warns: true,
			why: "it keeps images in an object store or a volume, and no add-on here has either", fix: "add openebs, minio or rook"},
	}
}

// networkOption is an option that names a network of the cluster, or two with a comma between them in a dual-stack cluster.
type networkOption struct{ key, option string }

func networkOptions() []networkOption {
	return []networkOption{{"kubernetes", "serviceCIDR"}, {"flannel", "podCIDR"}, {"weave", "podCIDR"}, {"antrea", "podCIDR"}}
}
