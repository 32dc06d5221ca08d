package restore

import (
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/recovery/snapshot"
)

// Preview is what a restore would do.
type Preview struct {
	Steps   lifecycle.Plan `json:"steps"`
	Lost    Lost           `json:"lost"`
	Removes []string       `json:"removes"` // other control planes
	Writes  []string       `json:"writes"`  // files that the host lacks
	Volumes Volumes        `json:"volumes"`
}

// Preview returns what Run would do.
func (r *Restore) Preview() Preview {
	return Preview{Steps: r.Plan(), Lost: r.Lost, Removes: r.Others(), Writes: r.Files(), Volumes: r.Volumes}
}

// Result is what a restore did.
type Result struct {
	Lost    Lost              `json:"lost"`
	OldData string            `json:"oldData"`                  // the folder in which etcd's data from before is kept
	Removed []string          `json:"removed"`                  // other control planes
	Written []string          `json:"written"`                  // files that the host lacked
	Volumes []snapshot.Volume `json:"writtenVolumes,omitempty"` // that the host lacked
}

// Result returns what Run did.
func (r *Restore) Result() Result {
	return Result{Lost: r.Lost, OldData: r.OldData(), Removed: r.Others(), Written: r.Files(), Volumes: r.Volumes.Lacking}
}
