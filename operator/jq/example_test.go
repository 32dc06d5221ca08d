package jq_test

import (
	"context"
	"fmt"

	"github.com/sealift/sealift/operator/jq"
)

func ExampleCompile() {
	filter, err := jq.Compile(".metadata.labels.app")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(filter.Apply(context.Background(), map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}}))
	// Output:
	// web <nil>
}
