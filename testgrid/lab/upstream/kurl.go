package upstream

import "slices"

// What kURL's own add-ons name, at the versions of the upstream cases. `lab build` without --kubernetes makes it; a selection of
// releases, such as the demo's, leaves it out.

// KurlContainerd and KurlRunc are the container runtime of kURL's add-on containerd 2.2.6.
const (
	KurlContainerd = "containerd-v2.2.6"
	KurlRunc       = "runc-v1.3.6"
)

// localPath is the provisioner that replaces OpenEBS's.
func localPath() string { return current("local-path-provisioner") }

func kurlComponents() []Component {
	return []Component{
		containerd("v2.2.6")[0],
		runc("v1.3.6"),
		{Name: "pause", Version: "3.10", Recipe: CProgram{
			Name: "pause", Source: FileOf{"pause-source-" + conformanceVersion(), "pause.c"}, Define: []string{"VERSION=v3.10"},
		}},
		flannel("v0.28.7", GoCommand{Package: "cmd/install_conf", Name: "install-conf"}),
		goModule("registry", "v3.1.1", GoModule{
			Path:     "github.com/distribution/distribution/v3",
			Commands: commandsIn("cmd", "registry"),
			Files:    []string{"cmd/registry/config-dev.yml"},
			Set:      []string{"github.com/distribution/distribution/v3/version.version=v3.1.1"},
		}),
		goModule("contour", "v1.32.1", GoModule{
			Path:     "github.com/projectcontour/contour",
			Commands: commandsIn("cmd", "contour"),
			Set:      []string{"github.com/projectcontour/contour/internal/build.Version=v1.32.1"},
		}),
		{Name: "kurl-stand-ins", Version: "1", Recipe: TextFiles{kurlStandInFiles()}},
		{Name: "velero-release", Version: "v1.18.2", Recipe: Tarball{
			File:  "velero-v1.18.2-linux-amd64.tar.gz",
			Files: []Placed{{FileOf{kurlStandIns, "velero"}, "velero-v1.18.2-linux-amd64/velero"}},
		}},
	}
}

// KurlImages lists the images that the Manifests of kURL's add-ons name.
func KurlImages() []Image {
	return slices.Concat(kurlStandInImages(), []Image{
		{
			Ref: "registry.k8s.io/pause:3.10", Files: filesOf("pause-3.10", "", "pause"),
			Entrypoint: []string{"/pause"}, User: "65535:65535",
		},
		{
			Ref: "ghcr.io/flannel-io/flannel:v0.28.7", Base: []string{netBase}, OCI: true,
			Files:      filesOf("flannel-v0.28.7", "opt/bin", "flanneld", "install-conf"),
			Entrypoint: []string{"/opt/bin/flanneld"},
		},
		{
			Ref: "docker.io/library/registry:3.1.1", Base: []string{busyboxBase}, OCI: true,
			Files: []Placed{
				{FileOf{"registry-v3.1.1", "registry"}, "bin/registry"},
				{FileOf{"registry-v3.1.1", "config-dev.yml"}, "etc/distribution/config.yml"},
			},
			Entrypoint: []string{"/bin/registry"}, Cmd: []string{"serve", "/etc/distribution/config.yml"},
		},
		{Ref: "ghcr.io/projectcontour/contour:v1.32.1", Files: filesOf("contour-v1.32.1", "bin", "contour")},
		{
			Ref: "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel2", Base: []string{busyboxBase}, OCI: true,
			Files:   filesOf(flannelPluginProgram, "", "flannel"),
			StandIn: noModule + "; it is the code that it was split off from",
		},
		{
			Ref:        "registry.k8s.io/metrics-server/metrics-server:v0.8.1",
			Files:      filesOf(current("metrics-server"), "", "metrics-server"),
			Entrypoint: []string{"/metrics-server"}, User: "65534",
			StandIn: "the Go proxy has v0.9.0 alone",
		},
	})
}

// KurlDownloads lists the files that the Manifests of kURL's add-ons name.
func KurlDownloads() []Download {
	const github = "github.com/"
	return []Download{
		{github + "opencontainers/runc/releases/download/v1.3.6/runc.amd64", FileOf{KurlRunc, "runc"}, ""},
		{github + "velero-io/velero/releases/download/v1.18.2/velero-v1.18.2-linux-amd64.tar.gz",
			FileOf{"velero-release-v1.18.2", "velero-v1.18.2-linux-amd64.tar.gz"}, ""},
	}
}
