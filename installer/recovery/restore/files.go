package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/encryption"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/internal/regularfile"
)

// host is a node of a cluster, by its files.
type host struct{ files.Host }

// notRestored is not restored: administrators are advised to remove it, and kubeadm can create it.
const notRestored = "etc/kubernetes/super-admin.conf"

// clusterOf returns the hash of the CA that this host knows, and its file. A host that knows none returns "".
func (h host) clusterOf() (hash, file string, err error) {
	all, file, err := cluster.KnownCAs(h.Rootfs)
	if err != nil || len(all) == 0 {
		return "", "", err
	}
	return identity.CAHash(all[0]), file, nil
}

// hasContent reports whether a file exists. An empty one was lost with the power.
func (h host) hasContent(name string) (bool, error) {
	info, err := os.Stat(h.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size() > 0, err
}

// missing returns the files of a snapshot that the host lacks. If one half of a pair of keys is lost, both are missing.
func (h host) missing(files []snapshot.File) (names []string, err error) {
	lost := map[string]bool{}
	for _, f := range files {
		there, err := h.hasContent(f.Name)
		if err != nil {
			return nil, err
		}
		lost[pair(f.Name)] = lost[pair(f.Name)] || !there
	}
	for _, f := range files {
		if lost[pair(f.Name)] && f.Name != notRestored {
			names = append(names, f.Name)
		}
	}
	return names, nil
}

// checkPlaces refuses files that a restore does not write: it writes those of kubeadm, the Installer, and the file from which the API server
// of this host reads the keys for Secrets. A snapshot names them, and root writes them.
func (h host) checkPlaces(names []string, root string) error {
	for _, name := range names {
		path := "/" + name
		if snapshot.OfKubeadm(path) || path == node.InstallerFile(root) {
			continue
		}
		manifest, err := h.manifest(kubeadm.APIServerManifest, nil)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if name != snapshot.EncryptionFile(manifest) {
			return fmt.Errorf("the snapshot has %s, which restore does not write: it is neither in %s nor %s nor a file with keys that the API server of this host reads. "+
				"If you know the file, take it from 'sealift snapshot unpack', put it there, and try again", path, kubeadm.Folder, node.InstallerFile(root))
		}
	}
	return nil
}

// addKeys also names the file with the keys for Secrets if it lacks one of the snapshot's: the keys may have been rotated since.
func (h host) addKeys(missing []string, from *snapshot.Content) ([]string, error) {
	name, _, ok := from.Encryption()
	if !ok || slices.Contains(missing, name) {
		return missing, nil
	}
	_, changed, err := h.keys(from)
	if changed {
		missing = append(missing, name)
	}
	return missing, err
}

// lacksKeysFlag reports whether the Secrets of a snapshot are encrypted, and the API server of this host names no file with keys. It
// refuses a host on which nobody would read the keys of the snapshot.
func (h host) lacksKeysFlag(from *snapshot.Content) (bool, error) {
	name, _, ok := from.Encryption()
	if !ok {
		return false, nil
	}
	manifest, err := h.manifest(kubeadm.APIServerManifest, from)
	if err != nil {
		return false, err
	}
	switch own := snapshot.EncryptionFile(manifest); {
	case own == name:
		return false, nil
	case own != "":
		return false, fmt.Errorf("the snapshot has the keys for Secrets in /%s, and the API server of this host reads them from /%s: let --encryption-provider-config in %s name /%s, and try again",
			name, own, kubeadm.APIServerManifest, name)
	case "/"+name != cluster.EncryptionFile:
		return false, fmt.Errorf("the snapshot has encrypted Secrets with keys in /%s, and the API server of this host reads none: give it --encryption-provider-config=/%s in %s, with a volume for that folder, and try again",
			name, name, kubeadm.APIServerManifest)
	}
	return true, nil
}

// keys are the keys for Secrets of this host, if any, and then those of the snapshot: all of them read, and the first one
// writes.
func (h host) keys(from *snapshot.Content) (text []byte, changed bool, err error) {
	name, was, _ := from.Encryption()
	there, err := h.hasContent(name)
	if err != nil || !there {
		return was, true, err
	}
	own, err := regularfile.ReadFile(h.Path(name))
	if err == nil {
		text, changed, err = encryption.Merge(own, was)
	}
	if err != nil {
		return nil, false, fmt.Errorf("the keys for Secrets in /%s: %w", name, err)
	}
	return text, changed, nil
}

// hasKeys reports whether a file has the keys for Secrets, which are the same on all control planes.
func hasKeys(from *snapshot.Content) func(string) bool {
	keys, _, ok := from.Encryption()
	return func(name string) bool { return ok && name == keys }
}

// pair is the same for the two files of a pair of keys.
func pair(name string) string {
	for _, extension := range []string{".crt", ".key", ".pub"} {
		if beside, ok := strings.CutSuffix(name, extension); ok {
			return beside
		}
	}
	return name
}

// write writes the named files of a snapshot. Only root may write to them afterwards.
func (h host) write(from *snapshot.Content, names []string) error {
	for _, f := range from.Files {
		if !slices.Contains(names, f.Name) {
			continue
		}
		content, ok := from.File(f.Name)
		if !ok {
			return fmt.Errorf("the snapshot: /%s cannot be read", f.Name)
		}
		if keys, _, ok := from.Encryption(); ok && f.Name == keys {
			var err error
			if content, _, err = h.keys(from); err != nil {
				return err
			}
		}
		path := h.Path(f.Name)
		if err := files.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := files.WriteMode(path, f.Mode&^0o022, content); err != nil {
			return fmt.Errorf("restore /%s: %w", f.Name, err)
		}
	}
	return nil
}

// manifest reads a file of the host, or else the snapshot's, which may be nil.
func (h host) manifest(name string, from *snapshot.Content) ([]byte, error) {
	if there, err := h.hasContent(name); err != nil || there {
		if err != nil {
			return nil, err
		}
		return regularfile.ReadFile(h.Path(name))
	}
	if from != nil {
		if content, ok := from.File(strings.TrimPrefix(name, "/")); ok {
			return content, nil
		}
	}
	return nil, fmt.Errorf("%s is neither on this host nor in the snapshot; etcd is not one of kubeadm's static pods: %w", name, fs.ErrNotExist)
}
