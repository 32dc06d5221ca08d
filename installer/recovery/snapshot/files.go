package snapshot

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/node"
)

// installerSuffix ends the path of the Installer below any root of a node.
var installerSuffix = strings.TrimPrefix(node.InstallerFile(node.DefaultRoot), node.DefaultRoot)

// checkFiles refuses files that no save includes. They are those of kubeadm, the Installer, and the file with the keys for Secrets,
// which may be anywhere: see checkKeys.
func (i Index) checkFiles() error {
	names, size := map[string]bool{}, int64(0)
	for _, f := range i.Files {
		if !fs.ValidPath(f.Name) || !printable(f.Name) || names[f.Name] || f.Size < 0 || f.Size > maxFile || f.Mode != f.Mode.Perm() {
			return fmt.Errorf("its index has a file that sealift does not save: %q", f.Name)
		}
		names[f.Name] = true
		size += f.Size
	}
	if len(i.Files) > maxFiles || size > maxAllFiles {
		return fmt.Errorf("its index has %d files of %d bytes, but sealift saves at most %d of %d", len(i.Files), size, maxFiles, maxAllFiles)
	}
	if outside := i.outside(); len(outside) > 1 {
		return fmt.Errorf("its index has files that sealift does not save: %q", outside)
	}
	return nil
}

// outside are the files of a snapshot that are neither kubeadm's nor the Installer.
func (i Index) outside() (names []string) {
	for _, f := range i.Files {
		name := "/" + f.Name
		if !OfKubeadm(name) && !strings.HasSuffix(name, installerSuffix) {
			names = append(names, name)
		}
	}
	return names
}

// OfKubeadm reports whether a file is one of kubeadm's: below /etc/kubernetes, but not a backup in its tmp.
func OfKubeadm(path string) bool {
	return strings.HasPrefix(path, kubeadm.Folder+"/") && !strings.HasPrefix(path, kubeadmBackups+"/")
}

// keysCheck sees the files of a snapshot while they are read, and keeps the manifest of the API server.
type keysCheck struct{ manifest bytes.Buffer }

// of also copies the content of a file to a writer.
func (k *keysCheck) of(name string) io.Writer {
	if name == strings.TrimPrefix(kubeadm.APIServerManifest, "/") {
		return &k.manifest
	}
	return io.Discard
}

// check refuses a file outside of kubeadm's folder unless the API server reads keys for Secrets from it.
func (k *keysCheck) check(index Index) error {
	for _, name := range index.outside() {
		if EncryptionFile(k.manifest.Bytes()) != strings.TrimPrefix(name, "/") {
			return fmt.Errorf("it has a file that sealift does not save: %q", name)
		}
	}
	return nil
}
