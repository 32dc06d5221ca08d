package undo

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/internal/regularfile"
)

// addressFlags are the flags that name the address of a node, by the files of a set that have them.
func addressFlags() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		cluster.APIServerManifest: regexp.MustCompile(`--advertise-address=([^\s"']+)`),
		cluster.EtcdManifest:      regexp.MustCompile(`--initial-advertise-peer-urls=([^\s"']+)`),
		cluster.KubeletFlags:      regexp.MustCompile(`--node-ip=([^\s"']+)`),
	}
}

// CheckAddress refuses a set of a node that has another address now: its manifests would start at an address that the host may not have,
// with certificates for the other one.
func (s Set) CheckAddress(store Store) error {
	for path, flag := range addressFlags() {
		at := slices.IndexFunc(s.Files, func(f File) bool { return f.Path == path })
		if at < 0 {
			continue
		}
		was, err := regularfile.ReadFile(s.copyOf(at))
		if err != nil {
			return fmt.Errorf("the copy of %s: %w", path, err)
		}
		now, err := regularfile.ReadFile(store.onDisk(s.Files[at]))
		if errors.Is(err, fs.ErrNotExist) {
			continue // an undo that was interrupted has taken it away
		}
		if err != nil {
			return err
		}
		before, after := flag.FindSubmatch(was), flag.FindSubmatch(now)
		if before != nil && after != nil && string(before[1]) != string(after[1]) {
			return fmt.Errorf("this node got another address after the upgrade: %s has %s, and the copy to go back to has %s; "+
				"change it back first with 'sealift node readdress', or restore a snapshot, as docs/snapshots.md says", path, after[1], before[1])
		}
	}
	return nil
}
