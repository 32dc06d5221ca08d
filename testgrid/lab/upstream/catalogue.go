package upstream

import "strings"

// Components lists everything that the lab can make.
func Components() []Component {
	return []Component{
		kubernetes("v1.35.4"),
		kubernetes("v1.36.3"),
		goModule("etcd", "v3.6.6", GoModule{Path: "go.etcd.io/etcd/server/v3", Commands: []GoCommand{{Name: "etcd"}}}),
		goModule("etcd", "v3.6.8", GoModule{Path: "go.etcd.io/etcd/server/v3", Commands: []GoCommand{{Name: "etcd"}}}),
		goModule("registry", "v3.1.2", GoModule{
			Path:     "github.com/distribution/distribution/v3",
			Commands: []GoCommand{{"cmd/registry", "registry"}},
			Set:      []string{"github.com/distribution/distribution/v3/version.version=v3.1.2"},
		}),
	}
}

func goModule(name, version string, m GoModule) Component {
	m.Version = version
	return Component{Name: name, Version: version, Recipe: m}
}

// kubernetes makes the seven commands of one release. Its staging modules are published as v0.<minor>.<patch>.
func kubernetes(version string) Component {
	minor, patch, _ := strings.Cut(strings.TrimPrefix(version, "v1."), ".")
	m := GoModule{
		Path:     "k8s.io/kubernetes",
		Siblings: "v0." + minor + "." + patch,
		Set: []string{
			"k8s.io/component-base/version.gitVersion=" + version,
			"k8s.io/component-base/version.gitMajor=1",
			"k8s.io/component-base/version.gitMinor=" + minor,
			"k8s.io/component-base/version.gitTreeState=clean",
		},
	}
	for _, name := range []string{"kubeadm", "kubelet", "kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		m.Commands = append(m.Commands, GoCommand{"cmd/" + name, name})
	}
	return goModule("kubernetes", version, m)
}
