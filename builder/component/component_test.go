package component_test

import (
	"testing"

	"github.com/sealift/sealift/builder/component"
)

func TestPackageURLsNameComponents(t *testing.T) {
	for want, c := range map[string]component.Component{
		"pkg:golang/golang.org/x/net@v0.30.0":                               component.Module("golang.org/x/net", "v0.30.0"),
		"pkg:golang/example.org/a@v1.0.0%2Bincompatible":                    component.Module("example.org/a", "v1.0.0+incompatible"),
		"pkg:golang/example.org/tree":                                       component.Module("example.org/tree", ""),
		"pkg:deb/debian/libc6@2.36-9%2Bdeb12u9?arch=amd64&distro=debian-12": {Kind: component.Deb, Name: "libc6", Version: "2.36-9+deb12u9", Arch: "amd64", System: "debian-12"},
		"pkg:rpm/rhel/bash@0%3A5.1-2.el9?arch=x86_64&distro=rhel-9.4":       {Kind: component.RPM, Name: "bash", Version: "0:5.1-2.el9", Arch: "x86_64", System: "rhel-9.4"},
		"pkg:apk/unknown/musl@1.2.5-r0":                                     {Kind: component.APK, Name: "musl", Version: "1.2.5-r0"},
	} {
		if got := c.URL(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
