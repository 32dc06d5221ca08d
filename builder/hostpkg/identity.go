package hostpkg

import (
	"fmt"
	"strconv"

	"github.com/sealift/sealift/bundle"
)

// checkIdentity refuses a package file whose own metadata differ from r, which a lock or the index of an archive says about it.
// Other names for the same file would hide what a host gets, also in the bill of materials.
func (r Resolved) checkIdentity(is bundle.HostPackageID) error {
	if r.HostPackageID == is {
		return nil
	}
	return fmt.Errorf("the file %s says that it is %s %s for %s, not %s %s for %s; lock the add-on again with sealift lock --update",
		r.URL, is.Name, is.Version, is.Arch, r.Name, r.Version, r.Arch)
}

// rpmID returns the ID of an rpm. Its version is [epoch:]version-release.
func rpmID(name string, epoch uint64, version, release, arch string) bundle.HostPackageID {
	version += "-" + release
	if epoch != 0 {
		version = strconv.FormatUint(epoch, 10) + ":" + version
	}
	return bundle.HostPackageID{Name: name, Version: version, Arch: arch}
}
