package helm

import "context"

// Deployed is Helm's word for the status of a release on which the last operation has succeeded.
const Deployed = "deployed"

// Record describes a release without its content. The zero value is a release that does not exist.
type Record struct {
	Revision int
	Status   string // Helm's word, such as deployed
	Labels   map[string]string
}

// Wanted is the desired state of a release.
type Wanted struct {
	Name   string
	Dir    string // of the chart; Chart.yaml may be missing
	Values map[string]any
	Files  map[string][]byte // of the chart, by their paths in Dir; nil to read them now
	// Unmanaged means that the objects of the release are left alone after one last upgrade.
	Unmanaged bool
	// Absent names objects of a manifest that the cluster lacks. Nil finds none.
	Absent func(ctx context.Context, manifest string) ([]string, error)
	// Known is the release as it was last read, or nil to read it now.
	Known *Record
}

// Ensured is the result.
type Ensured struct {
	Upgraded bool
	Why      string // the reason for an upgrade
	Manifest string // what the chart renders to; empty if it was not rendered
}
