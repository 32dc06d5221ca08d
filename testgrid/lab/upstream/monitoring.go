package upstream

import "github.com/sealift/sealift/internal/releases"

// MonitoringProgram is a program that reads a node's metrics or fires its alerts: prometheus, promtool or node_exporter. These are made only
// where they are asked for: compiling Prometheus takes minutes.
func MonitoringProgram(name string) FileOf {
	if name == "node_exporter" {
		return FileOf{current("node_exporter"), name}
	}
	return FileOf{current("prometheus"), name}
}

func monitoringComponents() []Component {
	prometheus, exporter := "v"+releases.Current("prometheus").Version, "v"+releases.Current("node_exporter").Version
	const versions = "github.com/prometheus/common/version.Version="
	return []Component{
		goModule("prometheus", prometheus, GoModule{
			Path:     "github.com/prometheus/prometheus",
			With:     commonLibraries(),
			Commands: commandsIn("cmd", "prometheus", "promtool"),
			// The SDKs of clouds are most of the program. Clusters behind a gap discover by Kubernetes and files.
			Tags: []string{"remove_all_sd", "enable_kubernetes_sd"},
			Set:  []string{versions + prometheus[1:]},
		}),
		goModule("node_exporter", exporter, GoModule{
			Path:     "github.com/prometheus/node_exporter",
			Commands: []GoCommand{{Name: "node_exporter"}},
			Set:      []string{versions + exporter[1:]},
		}),
	}
}
