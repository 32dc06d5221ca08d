package upstream

import "strings"

// What leads from outside to Services.

// metallb makes the controller, the speaker and the chart of one release.
func metallb(version string) []Component {
	return []Component{
		goModule("metallb", version, GoModule{
			Path:     metallbModule,
			Commands: []GoCommand{{Package: "controller", Name: "controller"}, {Package: "speaker", Name: "speaker"}},
			Patches:  []Patch{frrTypes()},
		}),
		metallbChart(version),
	}
}

// frrTypes has the types of announcements by BGP, which the lab's addresses do not use.
func frrTypes() Patch {
	return Patch{
		Module: "github.com/metallb/frr-k8s", Version: "v0.0.21",
		Files: map[string]string{"api/v1beta1/prepend.go": `package v1beta1

type AsPathPrependPrefixes struct {
	Prefixes      []string ` + "`json:\"prefixes,omitempty\"`" + `
	AsPathPrepend uint8    ` + "`json:\"asPathPrepend,omitempty\"`" + `
}
`},
		Edits: []Edit{{
			File: "api/v1beta1/frrconfiguration_types.go", Old: "type Advertise struct {\n",
			New: "type Advertise struct {\n\tPrefixesWithAsPathPrepend []AsPathPrependPrefixes `json:\"withAsPathPrepend,omitempty\"`\n",
		}},
		Why: "the Go proxy refuses the required v0.0.27; the newest that it serves lacks one type",
	}
}

const metallbModule = "go.universe.tf/metallb"

func metallbChart(version string) Component {
	number := strings.TrimPrefix(version, "v")
	return chart("metallb", version, ModuleChart{
		Path: metallbModule, Version: version, Folder: "charts/metallb",
		URL: "https://github.com/metallb/metallb/releases/download/metallb-chart-" + number + "/metallb-" + number + ".tgz",
	})
}

func metallbImages(version string) []Image {
	var list []Image
	for _, name := range []string{"controller", "speaker"} {
		list = append(list, Image{
			Ref: "quay.io/metallb/" + name + ":" + version, OCI: true,
			Files: filesOf("metallb-"+version, "", name), Entrypoint: []string{"/" + name},
		})
	}
	return list
}

func metallbDownloads(version string) []Download {
	return chartDownloads("metallb.github.io/metallb", metallbChart(version))
}
