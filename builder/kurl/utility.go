package kurl

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/internal/atomicfile"
)

// kURL keeps the image of programs that its add-ons run in pods beside them, in the format of 'docker save' (kURL §1.5). It
// becomes a separate add-on, with the image's tag as version.
const utilityFile = "shared/kurl-util.tar"

// addUtility adds an add-on for that image, unless the archive already has one.
func (u *unpacked) addUtility() error {
	if u.utility == nil {
		return nil
	}
	ref, tag, err := u.utilityRef()
	if err != nil {
		return fmt.Errorf("%s: %w", utilityFile, err)
	}
	dir := path.Join("addons", catalog.UtilityAddOn, tag)
	if u.addOns[dir] != nil {
		return nil
	}
	zipped, err := u.zipped(path.Join(dir, "images", catalog.UtilityAddOn+".tar.gz"))
	if err != nil {
		return fmt.Errorf("%s: %w", utilityFile, err)
	}
	u.addOns[dir] = map[string]bundle.File{zipped.Path: zipped}
	for name, text := range map[string]string{
		"Manifest":   "image " + catalog.UtilityAddOn + " " + ref + "\n",
		"install.sh": "# The image is for the hooks of other add-ons.\n",
	} {
		file := bundle.BytesFile(path.Join(dir, name), 0o644, []byte(text))
		u.addOns[dir][file.Path] = file
	}
	return nil
}

// utilityRef reads the name of the image.
func (u *unpacked) utilityRef() (ref, tag string, err error) {
	content, err := u.utility.Open()
	if err != nil {
		return "", "", err
	}
	defer content.Close()
	from := &source{r: content}
	for entries := tar.NewReader(from); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return "", "", faultf("has no manifest.json, so it is not what 'docker save' writes")
		}
		if err != nil {
			return "", "", from.blame(fmt.Errorf("not what 'docker save' writes: %w", err))
		}
		if path.Clean(header.Name) != "manifest.json" {
			continue
		}
		var images []struct{ RepoTags []string }
		if err := json.NewDecoder(io.LimitReader(entries, maxManifest)).Decode(&images); err != nil {
			return "", "", from.blame(fmt.Errorf("manifest.json: %w", err))
		}
		if len(images) != 1 {
			return "", "", faultf("has %d images, not one", len(images))
		}
		for _, ref := range images[0].RepoTags {
			if _, tag, _ := strings.Cut(path.Base(ref), ":"); catalog.IsUtilityImage(ref) && tag != "" {
				_, err := image.ParseReference(ref)
				return ref, tag, from.blame(err)
			}
		}
		return "", "", faultf("its image is named %q, not %s:TAG", images[0].RepoTags, catalog.UtilityAddOn)
	}
}

// zipped compresses the image like those of add-ons.
func (u *unpacked) zipped(name string) (bundle.File, error) {
	file := filepath.Join(u.spool, catalog.UtilityAddOn+".tar.gz")
	err := atomicfile.Fill(file, 0o644, func(w *os.File) (err error) {
		content, err := u.utility.Open()
		if err != nil {
			return err
		}
		defer content.Close()
		z := gzip.NewWriter(w)
		_, err = io.Copy(z, content)
		return errors.Join(err, z.Close())
	})
	if err != nil {
		return bundle.File{}, err
	}
	return bundle.DiskFile(name, 0o644, file)
}
