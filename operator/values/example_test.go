package values_test

import (
	"encoding/json"
	"fmt"

	"github.com/sealift/sealift/operator/values"
)

// show prints values as JSON.
func show(v any) {
	text, err := json.Marshal(v)
	fmt.Println(string(text), err)
}

func ExampleMerge() {
	show(values.Merge(
		map[string]any{"replicas": 1, "image": map[string]any{"name": "web", "tag": "1.0"}},
		map[string]any{"replicas": 3, "image": map[string]any{"tag": "1.1"}},
	))
	// Output:
	// {"image":{"name":"web","tag":"1.1"},"replicas":3} <nil>
}

// A hook of module web changes its values by a patch.
func ExampleApply() {
	patch, err := values.ParsePatch([]byte(`{"op": "add", "path": "/web/replicas", "value": 3}`))
	if err == nil {
		err = values.CheckPatch(patch, values.Key("web"))
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	result, changed, err := values.Apply(map[string]any{"web": map[string]any{"replicas": 1}}, patch, true)
	fmt.Println(changed, err)
	show(result)
	// Output:
	// true <nil>
	// {"web":{"replicas":3}} <nil>
}

// Of the operations that are kept for a path, the last one wins.
func ExampleCompact() {
	kept, err := values.ParsePatch([]byte(`{"op": "add", "path": "/web/replicas", "value": 1}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fresh, err := values.ParsePatch([]byte(`{"op": "add", "path": "/web/replicas", "value": 3}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	show(values.Compact(kept, fresh))
	// Output:
	// [{"op":"add","path":"/web/replicas","value":3}] <nil>
}

func ExampleReadConfig() {
	config, err := values.ReadConfig(map[string]string{"web": "replicas: 3", "webEnabled": "true"})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := config.Modules["web"]
	fmt.Println(web.Values, *web.Enabled)
	// Output:
	// map[replicas:3] true
}
