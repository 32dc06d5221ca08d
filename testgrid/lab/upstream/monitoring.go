package upstream

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sealift/sealift/internal/releases"
)

// What watches nodes and pods.

const (
	prometheusModule   = "github.com/prometheus/prometheus"
	alertmanagerModule = "github.com/prometheus/alertmanager"
)

// MonitoringProgram is a program that reads a node's metrics or fires its alerts: prometheus, promtool, alertmanager, amtool or
// node_exporter. These are made only on request: compiling Prometheus takes minutes.
func MonitoringProgram(name string) FileOf {
	r := releases.Newest("prometheus")
	switch name {
	case "alertmanager", "amtool":
		return FileOf{"alertmanager-v" + r.With["alertmanager"], name}
	case "node_exporter":
		return FileOf{"node_exporter-v" + r.With["node-exporter"], name}
	}
	return FileOf{"prometheus-" + prometheusModuleVersion(r), name}
}

// prometheusModuleVersion is the version of the Go module of a release: v0.316.0 of 3.16.0, because upstream's module stays below v2.
func prometheusModuleVersion(r releases.Release) string {
	major, rest, _ := strings.Cut(r.Version, ".")
	minor, patch, _ := strings.Cut(rest, ".")
	number, err := strconv.Atoi(minor)
	if err != nil {
		panic("releases.txt: prometheus " + r.Version + ": want MAJOR.MINOR.PATCH")
	}
	return fmt.Sprintf("v0.%s%02d.%s", major, number, patch)
}

// monitoring makes Prometheus, Alertmanager and node_exporter of one release of the add-on.
func monitoring(r releases.Release) []Component {
	const version = "github.com/prometheus/common/version.Version="
	alertmanager, exporter := r.With["alertmanager"], r.With["node-exporter"]
	return []Component{
		goModule("prometheus", prometheusModuleVersion(r), GoModule{
			Path:     prometheusModule,
			With:     commonLibraries(),
			Commands: commandsIn("cmd", "prometheus", "promtool"),
			// The SDKs of clouds are most of the program. Clusters behind a gap discover by Kubernetes and files.
			Tags: []string{"remove_all_sd", "enable_kubernetes_sd"},
			Set:  []string{version + r.Version},
		}),
		goModule("alertmanager", "v"+alertmanager, GoModule{
			Path:     alertmanagerModule,
			Commands: commandsIn("cmd", "alertmanager", "amtool"),
			Set:      []string{version + alertmanager},
			Patches: []Patch{{
				Module: alertmanagerModule, Version: "v" + alertmanager, Without: []string{"ui/app/src", "ui/mantine-ui"},
				Files: map[string]string{"ui/app/dist/README.txt": "This build of the lab has no web page. Its API and amtool are whole.\n"},
				Why:   "the module lacks the built page, which it embeds, and the compiler of that page (Elm) comes from GitHub only",
			}},
		}),
		goModule("node_exporter", "v"+exporter, GoModule{
			Path:     "github.com/prometheus/node_exporter",
			Commands: []GoCommand{{Name: "node_exporter"}},
			Set:      []string{version + exporter},
		}),
	}
}

func monitoringImages(r releases.Release) []Image {
	alertmanager, exporter := "v"+r.With["alertmanager"], "v"+r.With["node-exporter"]
	return []Image{
		{
			Ref: "quay.io/prometheus/prometheus:v" + r.Version, Base: []string{busyboxBase},
			Files:      filesOf("prometheus-"+prometheusModuleVersion(r), "bin", "prometheus", "promtool"),
			Entrypoint: []string{"/bin/prometheus"}, User: "65534",
		},
		{
			Ref: "quay.io/prometheus/alertmanager:" + alertmanager, Base: []string{busyboxBase},
			Files:      filesOf("alertmanager-"+alertmanager, "bin", "alertmanager", "amtool"),
			Entrypoint: []string{"/bin/alertmanager"}, User: "65534",
		},
		{
			Ref: "quay.io/prometheus/node-exporter:" + exporter, Base: []string{busyboxBase},
			Files:      filesOf("node_exporter-"+exporter, "bin", "node_exporter"),
			Entrypoint: []string{"/bin/node_exporter"}, User: "65534",
		},
	}
}
