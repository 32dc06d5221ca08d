package upstream

import "embed"

// What issues certificates.

const certManagerModule = "github.com/cert-manager/cert-manager"

//go:embed certmanager
var certManagerMains embed.FS

// certManager makes the programs and the chart of one release.
func certManager(version string) []Component {
	return []Component{
		goModule("cert-manager", version, GoModule{
			Path:     certManagerModule,
			With:     commonLibraries(),
			Commands: commandsIn("cmd", certManagerPrograms()...),
			Set:      []string{certManagerModule + "/pkg/util.AppVersion=" + version},
			Patches:  certManagerPatches(version),
		}),
		certManagerChart(version),
	}
}

func certManagerPrograms() []string {
	return []string{"acmesolver", "cainjector", "controller", "webhook"}
}

// certManagerPatches supply what the module lacks, and leave out a service that a cluster without a route out does not ask.
func certManagerPatches(version string) []Patch {
	mains := map[string]string{}
	for _, name := range certManagerPrograms() {
		text, err := certManagerMains.ReadFile("certmanager/" + name + ".go.txt")
		if err != nil {
			panic(err) // they are embedded
		}
		mains["cmd/"+name+"/main.go"] = string(text)
	}
	return append([]Patch{{
		Module: certManagerModule, Version: version, Files: mains,
		Why: "upstream's commands are modules of their own, which the Go proxy does not have. The lab's controller leaves out the issuers that ask services: ACME, Vault and Venafi",
	}}, emptyModules("the Go proxy refuses it; only the issuer for Venafi calls it", "github.com/Venafi/vcert/v5")...)
}

func certManagerChart(version string) Component {
	return chart("cert-manager", version, ModuleChart{
		Path: certManagerModule, Version: version, Folder: "deploy/charts/cert-manager", Release: version,
		URL:     "https://charts.jetstack.io/charts/cert-manager-" + version + ".tgz",
		Without: []string{"tests", "README.template.md", "signkey_annotation.txt", "values.linter.exceptions"},
	})
}

func certManagerImages(version string) []Image {
	var list []Image
	for _, name := range certManagerPrograms() {
		list = append(list, Image{
			Ref: "quay.io/jetstack/cert-manager-" + name + ":" + version, OCI: true,
			StandIn: "its packages are upstream's, its main is the lab's: " + noProgram,
			Files:   filesOf("cert-manager-"+version, "", name), Entrypoint: []string{"/" + name}, User: "1000",
		})
	}
	return list
}

func certManagerDownloads(version string) []Download {
	return chartDownloads("charts.jetstack.io", certManagerChart(version))
}
