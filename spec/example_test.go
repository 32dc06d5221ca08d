package spec_test

import (
	"fmt"
	"strings"

	"github.com/sealift/sealift/spec"
)

const installer = `apiVersion: sealift.dev/v1
kind: Installer
metadata:
  name: first
spec:
  kubernetes:
    version: 1.36.3
    serviceCIDR: 10.96.0.0/16
  flannel:
    version: latest
`

// example reads the Installer of the examples.
func example() *spec.Installer {
	i, err := spec.Parse("installer.yaml", strings.NewReader(installer))
	if err != nil {
		panic(err)
	}
	return i
}

func ExampleParse() {
	i, err := spec.Parse("installer.yaml", strings.NewReader(installer))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range i.AddOns {
		fmt.Println(a.Name, a.Version, a.Options)
	}
	// Output:
	// kubernetes 1.36.3 map[serviceCIDR:10.96.0.0/16]
	// flannel latest map[]
}

func ExampleParse_mistakes() {
	_, err := spec.Parse("installer.yaml", strings.NewReader(strings.Replace(installer, "serviceCIDR", "serviceCidrs", 1)))
	fmt.Println(err)
	// Output:
	// installer.yaml:8:5: error: kubernetes has no option "serviceCidrs" (did you mean "serviceCIDR"?)
}

// A site's patch changes the vendor's Installer.
func ExampleInstaller_Merge() {
	patch, err := spec.ParsePatch("site.yaml", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  kubernetes:\n    serviceCIDR: 172.30.0.0/16\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	merged, err := example().Merge(patch)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(merged.AddOn("kubernetes").Version, merged.AddOn("kubernetes").Options)
	// Output:
	// 1.36.3 map[serviceCIDR:172.30.0.0/16]
}

// Words of the command line change the Installer as kURL's flags do.
func ExampleInstaller_Override() {
	changed, unused, err := example().Override("kubernetes-version=1.36.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(changed.AddOn("kubernetes").Version, unused)
	// Output:
	// 1.36.1 {[] []}
}

// Hooks see the options of the Installer as variables of their shell.
func ExampleInstaller_Variables() {
	for _, v := range example().Variables() {
		if v.Name == "SERVICE_CIDR" || v.Name == "FLANNEL_VERSION" {
			fmt.Println(v.Name, v.Value)
		}
	}
	// Output:
	// FLANNEL_VERSION latest
	// SERVICE_CIDR 10.96.0.0/16
}

func ExampleVariableName() {
	fmt.Println(spec.VariableName("kubernetes", "serviceCIDR"), spec.VariableName("certManager", "version"))
	fmt.Println(spec.AddOnName("certManager"))
	// Output:
	// KUBERNETES_SERVICE_CIDR CERT_MANAGER_VERSION
	// cert-manager
}

// The order of keys and the comments of a document do not change its ID.
func ExampleInstaller_ID() {
	one, err := example().ID()
	if err != nil {
		fmt.Println(err)
		return
	}
	same, err := spec.Parse("b", strings.NewReader("# the same\n"+strings.ReplaceAll(installer, "  name: first", "  name:   first")))
	if err != nil {
		fmt.Println(err)
		return
	}
	other, err := same.ID()
	fmt.Println(one == other, err)
	// Output:
	// true <nil>
}
