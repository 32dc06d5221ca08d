package helm_test

import (
	"fmt"

	"github.com/sealift/sealift/helm"
)

func ExampleMergeValues() {
	under, err := helm.ReadValues([]byte("replicas: 1\nimage: {name: web, tag: '1.0'}\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	over, err := helm.ReadValues([]byte("image: {tag: '1.1'}\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(helm.MergeValues(under, over))
	// Output:
	// map[image:map[name:web tag:1.1] replicas:1]
}
