package upstream

import (
	"strings"

	"github.com/sealift/sealift/internal/releases"
)

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

const traefikModule = "github.com/traefik/traefik/v3"

// traefik makes the program, the chart and the definitions of the Gateway API of one release.
func traefik(r releases.Release) []Component {
	version := "v" + r.Version
	return []Component{
		goModule("traefik", version, GoModule{
			Path:     traefikModule,
			With:     commonLibraries(),
			Commands: commandsIn("cmd", "traefik"),
			Set:      []string{traefikModule + "/pkg/version.Version=" + r.Version, traefikModule + "/pkg/version.Codename=lab"},
			Patches:  traefikPatches(),
		}),
		traefikChart(r),
		gatewayAPI(r),
	}
}

// refusedByProxy are modules of clients of DNS services that the Go proxy does not have. Nothing of them is compiled, but Go reads their
// go.mod.
var refusedByProxy = []string{"github.com/nrdcg/oci-go-sdk/common/v1065", "github.com/nrdcg/oci-go-sdk/dns/v1065", "github.com/sacloud/sacloud-sdk-go",
	"github.com/ucloud/ucloud-sdk-go", "github.com/yandex-cloud/go-sdk/services/dns"}

// emptyModules replace modules whose packages are not compiled.
func emptyModules(why string, paths ...string) (list []Patch) {
	for _, path := range paths {
		list = append(list, Patch{Module: path, Files: map[string]string{"go.mod": "module " + path + "\n\ngo 1.26\n"}, Why: why})
	}
	return list
}

// traefikPatches supply what the module lacks, and leave out what a cluster without a route out does not ask.
func traefikPatches() []Patch {
	return append([]Patch{
		{
			Module: "github.com/traefik/traefik/dynamic/ext",
			Files: map[string]string{
				"go.mod": "module github.com/traefik/traefik/dynamic/ext\n\ngo 1.26\n",
				"ext.go": "// Package ext adds no fields.\npackage ext\n\ntype (\n\tHTTP   struct{}\n\tRouter struct{}\n)\n",
			},
			Why: "it is a folder of the repository that the module does not contain",
		},
		{
			Module: "github.com/go-acme/lego/v5", Version: "v5.4.1", Without: []string{"cmd", "e2e", "providers"},
			Files: map[string]string{"providers/dns/none.go": `// Package dns has no providers.
package dns

import (
	"fmt"

	"github.com/go-acme/lego/v5/challenge"
)

func NewDNSChallengeProviderByName(name string) (challenge.Provider, error) {
	return nil, fmt.Errorf("the lab's build has no DNS provider %q", name)
}
`},
			Why: "the clients of two hundred DNS services, some of which the Go proxy refuses; a cluster without a route out asks none of them",
		},
	}, emptyModules("the Go proxy refuses it; only a DNS provider of lego calls it", refusedByProxy...)...)
}

func traefikChart(r releases.Release) Component {
	number := r.With["chart"]
	return chart("traefik", "v"+number, ModuleChart{
		Path: "github.com/traefik/traefik-helm-chart", Version: "v" + number + "+incompatible", Folder: "traefik",
		URL:     "https://traefik.github.io/charts/traefik/traefik-" + number + ".tgz",
		Without: []string{"tests", "crds/kustomization.yaml"},
	})
}

// gatewayDefinitions is the file of a release of the Gateway API with the kinds that are stable.
const gatewayDefinitions = "standard-install.yaml"

func gatewayAPI(r releases.Release) Component {
	version := "v" + r.With["gateway-api"]
	return Component{Name: "gateway-api", Version: version, Recipe: ModuleManifest{
		Path: "sigs.k8s.io/gateway-api", Version: version, Folder: "config/crd/standard", File: gatewayDefinitions,
	}}
}

func traefikImages(version string) []Image {
	return []Image{{
		Ref: "docker.io/library/traefik:" + version, OCI: true,
		Files: filesOf("traefik-"+version, "", "traefik"), Entrypoint: []string{"/traefik"},
	}}
}

func traefikDownloads(r releases.Release) []Download {
	definitions := gatewayAPI(r)
	return append(chartDownloads("traefik.github.io/charts", traefikChart(r)), Download{
		URL:    "github.com/kubernetes-sigs/gateway-api/releases/download/" + definitions.Version + "/" + gatewayDefinitions,
		Source: FileOf{definitions.ID(), gatewayDefinitions},
	})
}
