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

func ExampleFile_Format() {
	file, err := manifest.Parse("Manifest", strings.NewReader("image   pause registry.k8s.io/pause:3.10\n\n# sockets\napt  socat\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", file.Format())
	// Output:
	// image pause registry.k8s.io/pause:3.10
	//
	// # sockets
	// apt socat
}

// Lint also reports mistakes that Parse accepts.
func ExampleLint() {
	findings, err := manifest.Lint("Manifest", strings.NewReader("image pause registry.k8s.io/pause:3.10\nimage pause registry.k8s.io/pause:3.10\n"))
	fmt.Println(err)
	for _, f := range findings {
		fmt.Println(f)
	}
	// Output:
	// <nil>
	// Manifest:2:7: error: image id "pause" is already on line 1 (give each image an id of its own)
}

// The keyword of a package directive selects the systems that it is for.
func ExampleHostPackageKind_Reaches() {
	for _, kind := range manifest.HostPackageKinds() {
		fmt.Println(kind.Keyword, kind.Reaches("debian-12"), kind.Reaches("rhel-9"))
	}
	// Output:
	// apt true false
	// apt24 false false
	// apt26 false false
	// yum false true
	// yum8 false false
	// yum9 false true
	// yum2023 false false
	// yumol false false
}

func ExampleChange_String() {
	fmt.Println(manifest.Change{What: "image etcd", Was: "registry.k8s.io/etcd:3.6.6-0", Now: "registry.k8s.io/etcd:3.6.8-0"})
	fmt.Println(manifest.Change{What: "image pause", Now: "registry.k8s.io/pause:3.10"})
	// Output:
	// image etcd: registry.k8s.io/etcd:3.6.8-0, was registry.k8s.io/etcd:3.6.6-0
	// image pause: new, registry.k8s.io/pause:3.10
}
