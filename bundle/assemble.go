package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Bundle is what an airgap archive is assembled from.
type Bundle struct {
	Files    []File     // at the root, before all packages: install.sh, the Installer, the binary
	Packages []*Archive // in the order of the Installer
}

// WriteBundle writes the archive of one Installer and returns its index. The members of the packages are copied as they
// are, with their indexes; content that several packages have travels once.
func WriteBundle(ctx context.Context, w io.Writer, b Bundle, o WriteOptions) (Index, error) {
	index := Index{Format: Format, Kind: KindBundle}
	p := &packer{options: o}
	defer p.cleanup()
	pieces, err := p.prepare(ctx, b.Files)
	if err != nil {
		return Index{}, err
	}
	for _, a := range b.Packages {
		if err := index.addPackage(a); err != nil {
			return Index{}, err
		}
		own, err := a.indexPiece()
		if err != nil {
			return Index{}, err
		}
		pieces = append(pieces, own)
		if a.signature != nil {
			signed, err := p.piece(BytesFile(a.Index.ownPath()+signatureSuffix, 0o644, a.signature))
			if err != nil {
				return Index{}, err
			}
			pieces = append(pieces, signed)
		}
		for _, e := range a.Index.Entries {
			pieces = append(pieces, piece{entry: e, verbatim: a.member(e)})
		}
	}
	return index, p.write(ctx, w, &index, pieces)
}

func (x *Index) addPackage(a *Archive) error {
	if a.Index.Kind != KindPackage || a.src == nil {
		return errors.New("only packages can be bundled")
	}
	info := a.Index.Packages[0]
	for _, other := range x.Packages {
		if other.Name == info.Name {
			return fmt.Errorf("add-on %s is there twice, as %s and %s", info.Name, other.Version, info.Version)
		}
	}
	if len(x.Packages) == 0 {
		x.Platforms = slices.Clone(a.Index.Platforms)
	}
	x.Platforms = slices.DeleteFunc(x.Platforms, func(p string) bool { return !slices.Contains(a.Index.Platforms, p) })
	if len(x.Platforms) == 0 {
		return fmt.Errorf("package %s %s is for %v, the packages before it are not", info.Name, info.Version, a.Index.Platforms)
	}
	info.Index = a.Digest
	x.Packages = append(x.Packages, info)
	return nil
}

// indexPiece is the package's own index as an entry of a bundle: its first member, byte for byte.
func (a *Archive) indexPiece() (piece, error) {
	e := Entry{
		Path: a.Index.ownPath(), Mode: 0o644, Size: int64(len(a.index)), SHA256: a.Digest, Encoding: Deflate, Length: a.first,
	}
	header, err := tarHeader(e)
	if err != nil {
		return piece{}, err
	}
	e.Header = int64(len(header))
	return piece{entry: e, header: header, verbatim: io.NewSectionReader(a.src, 0, a.first)}, nil
}
