package upstream

// Components that take snapshots of volumes.

const (
	snapshotterModule = "github.com/kubernetes-csi/external-snapshotter/v8"
	// snapshotterClient is the folder client of the same repository, with the definitions.
	snapshotterClient = "github.com/kubernetes-csi/external-snapshotter/client/v8"
)

// snapshotDefinitions are the files of the kinds whose controller the add-on has.
func snapshotDefinitions() []string {
	return []string{
		"groupsnapshot.storage.k8s.io_volumegroupsnapshotclasses.yaml",
		"groupsnapshot.storage.k8s.io_volumegroupsnapshotcontents.yaml",
		"groupsnapshot.storage.k8s.io_volumegroupsnapshots.yaml",
		"snapshot.storage.k8s.io_volumesnapshotclasses.yaml",
		"snapshot.storage.k8s.io_volumesnapshotcontents.yaml",
		"snapshot.storage.k8s.io_volumesnapshots.yaml",
	}
}

// volumeSnapshots makes the controller and the definitions of one release.
func volumeSnapshots(version string) []Component {
	var definitions []string
	for _, name := range snapshotDefinitions() {
		definitions = append(definitions, "config/crd/"+name)
	}
	return []Component{
		goModule("snapshot-controller", version, GoModule{
			Path:     snapshotterModule,
			With:     commonLibraries(),
			Commands: commandsIn("cmd", "snapshot-controller"),
			Set:      []string{"main.version=" + version},
		}),
		goModule("snapshot-definitions", version, GoModule{Path: snapshotterClient, Files: definitions}),
	}
}

func volumeSnapshotsImages(version string) []Image {
	return []Image{{
		Ref:   "registry.k8s.io/sig-storage/snapshot-controller:" + version,
		Files: filesOf("snapshot-controller-"+version, "", "snapshot-controller"), Entrypoint: []string{"/snapshot-controller"},
	}}
}

func volumeSnapshotsDownloads(version string) []Download {
	var list []Download
	for _, name := range snapshotDefinitions() {
		list = append(list, Download{
			URL:    "raw.githubusercontent.com/kubernetes-csi/external-snapshotter/" + version + "/client/config/crd/" + name,
			Source: FileOf{"snapshot-definitions-" + version, name},
		})
	}
	return list
}
