package helm

// Record is what is known of a release without reading it. The zero value is a release that does not exist.
type Record struct {
	Revision int
	Status   string // Helm's word, such as deployed
	Labels   map[string]string
}

// Wanted is what a release shall be.
type Wanted struct {
	Name   string
	Dir    string // of the chart; Chart.yaml may be missing
	Values map[string]any
	// Unmanaged says that the objects of the release are left alone after one last upgrade.
	Unmanaged bool
	// Known is what was known of the release when it was last looked for, or nil: then it is looked for.
	Known *Record
}

// Ensured is what became of it.
type Ensured struct {
	Upgraded bool
	Why      string // the reason for an upgrade
}
