package catalog

// shipped returns versions of an add-on that certainly exist, oldest first: those of the catalogue that ships, or kURL's newest of
// August 2026, and KOTS's of October. They stand in for a store that nobody named. A test compares them with addons/.
func shipped(name string) []string {
	return map[string][]string{
		"kubernetes": {"1.35.4", "1.36.3"}, "containerd": {"2.2.1"}, "flannel": {"0.26.7"}, "metrics-server": {"0.9.0"},
		"local-path-provisioner": {"0.0.30"}, "operator": {"0.1.0"},

		"antrea": {"1.4.0"}, "aws": {"0.1.0"}, "calico": {"3.9.1"}, "cert-manager": {"1.21.0"}, "collectd": {"v5"}, "contour": {"1.32.1"},
		"ekco": {"0.28.14"}, "fluentd": {"1.7.4"}, "goldpinger": {"3.11.2-1.1.2"}, "kotsadm": {"1.134.0"}, "longhorn": {"1.3.1"},
		"minio": {"2025-10-15T17-29-55Z"}, "openebs": {"4.5.1"}, "prometheus": {"0.92.1-87.15.1"}, "registry": {"3.1.1"},
		"rook": {"1.19.7"}, "sonobuoy": {"0.57.3"}, "velero": {"1.18.2"}, "weave": {"2.8.1-20230417"},
	}[name]
}
