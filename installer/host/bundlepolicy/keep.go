package bundlepolicy

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/verdict"
	"github.com/sealift/sealift/installer/host/files"
)

// KeepVerdict writes the verdict that came with an archive into the folder with its index, for hosts that get the archive from there. Whether this
// host demands one does not matter. It removes the verdict of an earlier archive.
func KeepVerdict(a *bundle.Archive, folder string) error {
	signed, err := a.Verdict()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for name, data := range map[string][]byte{verdict.Name: signed.Document, verdict.SignatureName: signed.Signature} {
		path := filepath.Join(folder, name)
		if len(data) == 0 {
			err = files.RemoveAll(path)
		} else {
			err = files.Write(path, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
