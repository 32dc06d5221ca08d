package repodata

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Installed reads the header of an installed package, in the form that rpm's database has: without magic bytes, beginning with the number
// of tags and the length of their values. It reads what names the package, its license and its source, and leaves all else out.
func Installed(data []byte) (*Package, error) {
	if len(data) < 8 {
		return nil, errors.New("not a header of rpm's database: it is too short")
	}
	count, size := binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])
	data = data[8:]
	if count > maxIndex || size > maxStore || int64(count)*16+int64(size) > int64(len(data)) {
		return nil, fmt.Errorf("not a header of rpm's database: %d tags in %d bytes do not fit into %d bytes", count, size, len(data))
	}
	h := header{numbers: make(map[uint32][]uint64), texts: make(map[uint32][]string)}
	only := []uint32{tagName, tagVersion, tagRelease, tagEpoch, tagArch, tagVendor, tagLicense, tagSourceRPM, tagModularity}
	if err := h.decode(data[:count*16], data[count*16:][:size], only); err != nil {
		return nil, fmt.Errorf("header of rpm's database: %w", err)
	}
	p := &Package{
		Name: h.text(tagName), Version: h.text(tagVersion), Release: h.text(tagRelease), Arch: h.text(tagArch), Epoch: h.number(tagEpoch),
		Vendor: h.text(tagVendor), License: h.text(tagLicense), Source: h.text(tagSourceRPM), Module: h.text(tagModularity),
	}
	if p.Name == "" || p.Version == "" || p.Release == "" {
		return nil, errors.New("header of rpm's database: it has no name, version or release")
	}
	return p, nil
}
