package kind

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
)

func TestFilesOfDirectivesAreKnownByName(t *testing.T) {
	const dir = "addons/demo/1.0/"
	p := bundle.PackageInfo{Name: "demo", Version: "1.0", Targets: []string{"debian-12", "rhel-9"}, Contents: bundle.Contents{
		Images:       []bundle.Image{{ID: "app"}},
		HostPackages: []bundle.HostPackage{{Path: dir + "packages/debian-12/socat.deb"}, {Path: dir + "packages/rhel-9/jq.rpm"}},
		Assets:       []bundle.Asset{{Path: dir + "assets/tool"}, {Path: dir + "charts/hello-v1.2.3.tgz"}},
	}}
	s := NewSet(Options{})
	for _, name := range []string{
		"images/index.json", "images/oci-layout", "images/referrers.json", "images/blobs/sha256/" + strings.Repeat("a", 64), "images/app.tar.gz",
		"packages/debian-12/socat.deb", "packages/debian-12/Packages", "packages/debian-12/Release",
		"packages/rhel-9/jq.rpm", "packages/rhel-9/repodata/repomd.xml", "packages/rhel-9/keys/" + strings.Repeat("a", 64) + ".asc",
		"assets/tool", "charts/hello-v1.2.3.tgz", "charts/hello/rendered.yaml", "charts/hello/kustomization.yaml", "sbom.spdx.json",
	} {
		if !s.Made(p, dir+name) {
			t.Errorf("%s is taken for a file of the add-on itself", name)
		}
	}
	for _, name := range []string{
		"images/other.tar.gz", "images/logo.png", "packages/rhel-8/repodata/repomd.xml", "packages/debian-12/own.deb", "packages/notes.txt", "assets/own",
		"charts/hello/own.yaml", "charts/hell/rendered.yaml", "charts/hello-values.yaml", "install.sh",
	} {
		if s.Made(p, dir+name) {
			t.Errorf("%s is taken for a file of a directive", name)
		}
	}
	if s.Made(bundle.PackageInfo{Name: "demo", Version: "1.0"}, dir+"images/index.json") {
		t.Error("a package without images has a layout of them")
	}
}
