package ocilayout

import (
	"errors"
	"fmt"
	"path"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
)

// VerifySignature is that of the archive, for those who accept signed packages in a bundle that is not signed itself. It checks with
// CheckForms what nobody signed there.
func VerifySignature(a *bundle.Archive, trusted ...signature.PublicKey) (bundle.Trust, error) {
	trust, err := a.VerifySignature(trusted...)
	if err == nil && trust.Signer == "" {
		err = CheckForms(a)
	}
	return trust, err
}

// CheckForms returns an error that names a lean layer, or one made by a patch, that no image of its package has, or that unpacks to something
// else than the image's configuration says. The index of a bundle, which says what such a layer unpacks to, may be signed by nobody; the
// configurations are files of packages, which may be. Images whose documents the archive leaves out without a base are not looked at.
func CheckForms(a *bundle.Archive) error {
	for _, p := range a.Index.Packages {
		var forms []bundle.Entry
		for _, e := range a.Below(p.Dir()) {
			if e.Layer != nil {
				forms = append(forms, e)
			}
		}
		if len(forms) == 0 {
			continue
		}
		known, whole, err := diffIDs(a, p)
		if err != nil {
			return fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
		}
		for _, e := range forms {
			switch want, ok := known[e.Layer.Blob]; {
			case !ok && whole:
				return fmt.Errorf("%s: stands for the layer %s, which no image of the package has", e.Path, e.Layer.Blob)
			case ok && want != e.Layer.DiffID:
				return fmt.Errorf("%s: unpacks to another layer than the configuration of its image says", e.Path)
			}
		}
	}
	return nil
}

// diffIDs returns the sha256 of the unpacked layers of a package's images, by that of the layers. whole is whether all documents could be
// read.
func diffIDs(a *bundle.Archive, p bundle.PackageInfo) (known map[string]string, whole bool, err error) {
	layout, err := Open(a, path.Join(p.Dir(), "images"))
	if errors.Is(err, bundle.ErrNoBase) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	known, whole = make(map[string]string), true
	for _, image := range layout.Images {
		one := *layout
		one.Images = []Image{image}
		layers, err := one.Layers()
		if errors.Is(err, bundle.ErrNoBase) {
			whole = false
			continue
		}
		if err != nil {
			return nil, false, err
		}
		for _, l := range layers {
			known[l.Descriptor.Digest.Encoded()] = l.DiffID.Encoded()
		}
	}
	return known, whole, nil
}
