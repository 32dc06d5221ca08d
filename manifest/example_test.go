package manifest_test

import (
	"fmt"
	"strings"

	"github.com/sealift/sealift/manifest"
)

func ExampleParse() {
	file, err := manifest.Parse("Manifest", strings.NewReader(`
image pause registry.k8s.io/pause:3.10
asset https://dl.k8s.io/v1.36.3/bin/linux/amd64/kubeadm
apt conntrack
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range file.Directives() {
		switch d := d.(type) {
		case manifest.Image:
			fmt.Println("pull", d.Ref)
		case manifest.Asset:
			fmt.Println("download", d.Source, "as", d.Name)
		case manifest.HostPackage:
			fmt.Println("resolve", d.Name, "for debian-12:", d.Kind.Reaches("debian-12"))
		}
	}
	// Output:
	// pull registry.k8s.io/pause:3.10
	// download https://dl.k8s.io/v1.36.3/bin/linux/amd64/kubeadm as kubeadm
	// resolve conntrack for debian-12: true
}

func ExampleParse_mistakes() {
	_, err := manifest.Parse("Manifest", strings.NewReader("imgae pause registry.k8s.io/pause:3.10\napt socat conntrack\n"))
	fmt.Println(err)
	// Output:
	// Manifest:1:1: error: unknown directive "imgae" (did you mean "image"?)
	// Manifest:2:11: error: several packages on one line: socat conntrack (give each package a line of its own; kURL takes the first and drops the others)
}
