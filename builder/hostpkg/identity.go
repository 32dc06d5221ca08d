package hostpkg

import (
	"fmt"
	"strconv"

	"github.com/sealift/sealift/builder/hostpkg/repodata"
)

// checkIdentity refuses a package file whose own metadata differ from r, which a lock or the index of an archive says about it.
// Other names for the same file would hide what a host gets, also in the bill of materials.
func (r Resolved) checkIdentity(name, version, arch string) error {
	if r.Name == name && r.Version == version && r.Arch == arch {
		return nil
	}
	return fmt.Errorf("the file %s says that it is %s %s for %s, not %s %s for %s; lock the add-on again with sealift lock --update",
		r.URL, name, version, arch, r.Name, r.Version, r.Arch)
}

// versionOf is the version of an rpm as Resolved has it: [epoch:]version-release.
func versionOf(p *repodata.Package) string {
	version := p.Version + "-" + p.Release
	if p.Epoch != 0 {
		version = strconv.FormatUint(p.Epoch, 10) + ":" + version
	}
	return version
}
