package sbom

import (
	"slices"

	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/sealift/sealift/builder/component"
)

// Program is a program of a release, with the modules that its linker has put into it.
type Program struct {
	Name    string // such as sealift
	Arch    string // such as amd64
	SHA256  string // of the file, in hex
	Go      string // the toolchain, such as go1.26.11
	Modules []Module
}

// Module is a Go module.
type Module struct{ Path, Version string }

// Release returns the document of the programs of a release: each with its digest and its modules. Programs share modules, and a module is in
// the document once.
func Release(version string, programs []Program) ([]byte, error) {
	w := newWriter()
	for _, p := range programs {
		name := p.Name + "-linux-" + p.Arch
		root := w.add(&v2_3.Package{
			PackageName: p.Name, PackageVersion: version, PackageFileName: name, PackageSPDXIdentifier: id("Program", name),
			PackageChecksums: checksum("sha256:" + p.SHA256), PackageLicenseDeclared: "Apache-2.0", PrimaryPackagePurpose: "APPLICATION",
		})
		w.relate("DOCUMENT", describes, root)
		for _, m := range append(slices.Clone(p.Modules), Module{"stdlib", p.Go}) {
			w.relate(root, contains, w.module(m))
		}
	}
	return w.document("sealift-" + version)
}

func moduleID(m Module) common.ElementID { return id("Module", m.Path+"@"+m.Version) }

func (w *writer) module(m Module) common.ElementID {
	return w.add(&v2_3.Package{
		PackageName: m.Path, PackageVersion: m.Version, PackageSPDXIdentifier: moduleID(m),
		PackageExternalReferences: purl(component.Module(m.Path, m.Version).URL()), PrimaryPackagePurpose: "LIBRARY",
	})
}
