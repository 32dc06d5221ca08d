package restore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/internal/regularfile"
)

// LastDrill is the result of the last drill on a node.
type LastDrill struct {
	Time     time.Time `json:"time"`
	Snapshot time.Time `json:"snapshot"` // when that was saved
	Passed   bool      `json:"passed"`
	Seconds  float64   `json:"seconds"` // until every object was read
}

// Remember keeps the result of a drill for ReadLastDrill, on a node of the cluster that the snapshot is from.
func (d Drill) Remember(root string, of snapshot.Index) error { return d.remember(root, "", of) }

// remember is Remember on a host whose files are below rootfs; "" means /.
func (d Drill) remember(root, rootfs string, of snapshot.Index) error {
	if _, err := node.ReadMark(root); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	own, _, err := cluster.KnownCAs(rootfs)
	if err != nil {
		return err
	}
	var hashes []string
	for _, ca := range own {
		hashes = append(hashes, identity.CAHash(ca))
	}
	if !slices.Contains(hashes, of.Cluster) {
		return nil
	}
	text, err := json.Marshal(LastDrill{time.Now().UTC().Truncate(time.Second), of.Time, d.Err() == nil, d.Whole})
	if err != nil {
		return err
	}
	return files.WriteMode(node.LastDrillFile(root), 0o600, text)
}

// ReadLastDrill returns the last drill on this node; nil if there was none.
func ReadLastDrill(root string) (*LastDrill, error) {
	text, err := regularfile.ReadFile(node.LastDrillFile(root))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there was none
	}
	if err != nil {
		return nil, err
	}
	last := new(LastDrill)
	if err := json.Unmarshal(text, last); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; the next drill rewrites it", node.LastDrillFile(root), err)
	}
	return last, nil
}
