package upstream

import (
	"strings"

	"github.com/sealift/sealift/internal/releases"
)

// What admits pods and moves them.

const (
	gatekeeperModule  = "github.com/open-policy-agent/gatekeeper/v3"
	deschedulerModule = "sigs.k8s.io/descheduler"
)

// gatekeeper makes the program and the chart of one release.
func gatekeeper(version string) []Component {
	return []Component{
		goModule("gatekeeper", version, GoModule{
			Path:     gatekeeperModule, // with its own libraries: it does not compile with Kubernetes 0.37
			Commands: []GoCommand{{Name: "manager"}},
			Set:      []string{gatekeeperModule + "/pkg/version.Version=" + version},
		}),
		gatekeeperChart(version),
	}
}

func gatekeeperChart(version string) Component {
	return chart("gatekeeper", version, ModuleChart{
		Path: gatekeeperModule, Version: version, Folder: "charts/gatekeeper",
		URL: "https://open-policy-agent.github.io/gatekeeper/charts/gatekeeper-" + strings.TrimPrefix(version, "v") + ".tgz",
	})
}

func gatekeeperImages(version string) []Image {
	return []Image{{
		Ref: "docker.io/openpolicyagent/gatekeeper:" + version, OCI: true,
		Files: filesOf("gatekeeper-"+version, "", "manager"), Entrypoint: []string{"/manager"}, User: "65532:65532",
	}}
}

func gatekeeperDownloads(version string) []Download {
	return chartDownloads("open-policy-agent.github.io/gatekeeper/charts", gatekeeperChart(version))
}

// descheduler makes the program of one release, and the chart. A module has the chart of the release before it: upstream publishes charts
// after programs.
func descheduler(r releases.Release) []Component {
	version := "v" + r.Version
	return []Component{
		goModule("descheduler", version, GoModule{
			Path:     deschedulerModule,
			With:     commonLibraries(),
			Commands: commandsIn("cmd", "descheduler"),
			Set:      []string{deschedulerModule + "/pkg/version.version=" + version},
		}),
		deschedulerChart(r),
	}
}

func deschedulerChart(r releases.Release) Component {
	number := r.With["chart"]
	return chart("descheduler", "v"+number, ModuleChart{
		Path: deschedulerModule, Version: "v" + r.Version, Folder: "charts/descheduler",
		URL:     "https://github.com/kubernetes-sigs/descheduler/releases/download/descheduler-helm-chart-" + number + "/descheduler-" + number + ".tgz",
		Without: []string{"tests"},
	})
}

func deschedulerImages(version string) []Image {
	return []Image{{
		Ref:   "registry.k8s.io/descheduler/descheduler:" + version,
		Files: filesOf("descheduler-"+version, "bin", "descheduler"), Cmd: []string{"/bin/descheduler", "--help"}, User: "1000",
	}}
}

func deschedulerDownloads(r releases.Release) []Download {
	return chartDownloads("kubernetes-sigs.github.io/descheduler", deschedulerChart(r))
}
