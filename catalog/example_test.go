package catalog_test

import (
	"fmt"
	"slices"
	"testing/fstest"

	"github.com/sealift/sealift/catalog"
)

func ExampleScan() {
	metas, err := catalog.Scan(fstest.MapFS{
		"addons/disk/1.0.0/Manifest":   {},
		"addons/disk/1.0.0/addon.yaml": {Data: []byte("description: Local volumes\nprovides: [storage]\n")},
		"addons/app/2.1.0/Manifest":    {},
		"addons/app/2.1.0/addon.yaml":  {Data: []byte("description: Keeps files\nrequires: [storage]\n")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range metas {
		fmt.Println(m.Dir(), m.Description)
	}
	order, err := catalog.Order(metas)
	fmt.Println(order, err)
	// Output:
	// addons/app/2.1.0 Keeps files
	// addons/disk/1.0.0 Local volumes
	// [disk app] <nil>
}

func ExampleOrder_missing() {
	_, err := catalog.Order([]catalog.Meta{{Name: "app", Version: "2.1.0", Requires: []string{"storage"}, Declared: true}})
	fmt.Println(err)
	// Output:
	// add-on app requires storage, but no add-on here has that name or provides it; add one to the Installer
}

func ExampleCompareVersions() {
	versions := []string{"1.10.0", "1.9.3", "1.10.0-rc.1", "0.63.0-45.4.0", "0.63.0"}
	slices.SortFunc(versions, catalog.CompareVersions)
	fmt.Println(versions)
	// Output:
	// [0.63.0 0.63.0-45.4.0 1.9.3 1.10.0-rc.1 1.10.0]
}
