package status

import (
	"errors"
	"io/fs"
	"time"

	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/internal/diskspace"
)

// Snapshots are the snapshots that a control plane saves.
type Snapshots struct {
	// Every is the interval that the Installer promises, in seconds. 0 means that it promises none.
	Every float64        `json:"everySeconds,omitempty"`
	Last  *snapshot.Last `json:"last,omitempty"` // nil means that this node saved none
	// Problem is why something of this is not known.
	Problem string `json:"problem,omitempty"`
}

// readRecovery reads what this node has to come back from a loss.
func (s *Status) readRecovery(root string) {
	var found Snapshots
	var drillErr, lastErr, err error
	s.Drill, drillErr = restore.ReadLastDrill(root)
	found.Last, lastErr = snapshot.ReadLast(root)
	whole, installerErr := installerOf(root)
	if installerErr == nil {
		var every time.Duration
		every, err = install.SnapshotInterval(whole)
		found.Every = every.Seconds()
	} else if !errors.Is(installerErr, fs.ErrNotExist) { // a worker has none, nor a host without an install
		err = installerErr
	}
	if err = errors.Join(drillErr, lastErr, err); err != nil {
		found.Problem = err.Error()
	}
	if found != (Snapshots{}) {
		s.Snapshots = &found
	}
}

// Space is what a file system has left, and what an upgrade takes there whose bundle is as large as the installed one.
type Space struct {
	Path   string `json:"path"`
	Free   uint64 `json:"freeBytes"`
	Needed uint64 `json:"neededBytes"`
}

// Short reports whether the next upgrade is likely to find too little space.
func (s Space) Short() bool { return s.Free < s.Needed }

// spaceFor looks at the folders that upgrades fill. Where both are on one file system, each needs room for both. A run of an earlier sealift
// did not record what its bundle takes.
func spaceFor(c node.Content, root string) ([]Space, error) {
	if c == (node.Content{}) {
		return nil, nil
	}
	images, err := diskspace.Of(node.ContainerdDir)
	if err != nil {
		return nil, err
	}
	files, err := diskspace.Of(root)
	if err != nil {
		return nil, err
	}
	needed := map[uint64]uint64{}
	needed[images.Device] += c.Images
	needed[files.Device] += c.Files
	return []Space{{node.ContainerdDir, images.Bytes, needed[images.Device]}, {root, files.Bytes, needed[files.Device]}}, nil
}
