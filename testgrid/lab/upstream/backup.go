package upstream

import (
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/releases"
)

// What backs up objects and volumes.

const (
	veleroModule    = "github.com/vmware-tanzu/velero"
	veleroAWSModule = "github.com/vmware-tanzu/velero-plugin-for-aws"
)

// veleroDefinitions are the files of the kinds, below config/crd of the module.
func veleroDefinitions() (files []string) {
	for _, kind := range []string{
		"backuprepositories", "backups", "backupstoragelocations", "deletebackuprequests", "downloadrequests", "podvolumebackups",
		"podvolumerestores", "restores", "schedules", "serverstatusrequests", "volumesnapshotlocations",
	} {
		files = append(files, "v1/bases/velero.io_"+kind+".yaml")
	}
	return append(files, "v2alpha1/bases/velero.io_datadownloads.yaml", "v2alpha1/bases/velero.io_datauploads.yaml")
}

// velero makes the programs and the definitions of one release, and the plugin for S3.
func velero(r releases.Release) []Component {
	version, plugin := "v"+r.Version, "v"+r.With["aws"]
	var definitions []string
	for _, file := range veleroDefinitions() {
		definitions = append(definitions, "config/crd/"+file)
	}
	return []Component{
		goModule("velero", version, GoModule{
			Path:     veleroModule,
			With:     []string{"k8s.io/cli-runtime@v0.33.13"}, // the Go proxy refuses v0.33.12
			Commands: commandsIn("cmd", "velero", "velero-helper", "velero-restore-helper"),
			Set:      []string{veleroModule + "/pkg/buildinfo.Version=" + version},
		}),
		goModule("velero-definitions", version, GoModule{Path: veleroModule, Files: definitions}),
		goModule("velero-plugin-for-aws", plugin, GoModule{
			Path:     veleroAWSModule,
			With:     []string{veleroModule + "@" + version}, // compiled already
			Commands: []GoCommand{{Package: "velero-plugin-for-aws", Name: "velero-plugin-for-aws"}, {Package: "hack/cp-plugin", Name: "cp-plugin"}},
		}),
	}
}

// veleroImages lack restic, which upstream's has for backups of older versions.
func veleroImages(r releases.Release) []Image {
	version, plugin := "v"+r.Version, "v"+r.With["aws"]
	return []Image{
		{
			Ref: "docker.io/velero/velero:" + version, OCI: true, User: "1000:1000",
			Files: filesOf("velero-"+version, "", "velero", "velero-helper", "velero-restore-helper"),
		},
		{
			Ref: "docker.io/velero/velero-plugin-for-aws:" + plugin, OCI: true, User: "65532:65532",
			Files: slices.Concat(filesOf("velero-plugin-for-aws-"+plugin, "plugins", "velero-plugin-for-aws"),
				filesOf("velero-plugin-for-aws-"+plugin, "bin", "cp-plugin")),
			Entrypoint: []string{"cp-plugin", "/plugins/velero-plugin-for-aws", "/target/velero-plugin-for-aws"},
		},
	}
}

func veleroDownloads(version string) (list []Download) {
	for _, file := range veleroDefinitions() {
		list = append(list, Download{
			URL:    "raw.githubusercontent.com/vmware-tanzu/velero/" + version + "/config/crd/" + file,
			Source: FileOf{"velero-definitions-" + version, file[strings.LastIndex(file, "/")+1:]},
		})
	}
	return list
}
