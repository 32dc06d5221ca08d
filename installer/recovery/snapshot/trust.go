package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/regularfile"
)

// seen is the content of a node's file about its snapshots in stores.
type seen struct {
	Namespace string `json:"kubeSystem"` // UID of the namespace kube-system
}

// trust refuses to save into a store if etcd lost its data and began again without. That snapshot would be the newest of the store, and
// push out those with the data.
func (s Source) trust(ctx context.Context) error {
	file := s.path(node.SnapshotsFile(s.Root))
	was, known, err := readSeen(file)
	if err != nil {
		return err
	}
	found, err := cluster.ReadEtcd(ctx, s.Etcd, cluster.SystemNamespace, cluster.SystemNamespace)
	if err != nil {
		return err
	}
	is := cluster.UIDOf(found.Value)
	switch {
	case is == "" && len(found.Value) > 0 || known && is == was.Namespace: // an encrypted one reveals nothing
		return nil
	case known:
		return fmt.Errorf("etcd has begun without data since the last snapshot: its namespace kube-system has the UID %q, and had %q. "+
			"'sealift restore' brings the data back. If this is the cluster that you want to keep, remove %s and save again; 'sealift snapshot save --out FILE' saves what etcd has now",
			is, was.Namespace, file)
	case is == "":
		return nil
	}
	if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, fs.ErrNotExist) { // a cluster without sealift
		return nil
	}
	text, err := json.Marshal(seen{is})
	if err != nil {
		return err
	}
	return files.WriteMode(file, 0o600, text)
}

// readSeen treats a damaged file as missing: the next save rewrites it.
func readSeen(file string) (s seen, known bool, err error) {
	text, err := regularfile.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return s, false, err
	}
	return s, json.Unmarshal(text, &s) == nil && s.Namespace != "", nil
}
