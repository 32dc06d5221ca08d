package lifecycle

import (
	"fmt"
	"testing"

	"github.com/sealift/sealift/operator/module"
	"github.com/sealift/sealift/operator/values"
)

// TestLastingPatchKeepsOtherTexts: what a hook does not change in a section has its meaning also after the section is written again.
func TestLastingPatchKeepsOtherTexts(t *testing.T) {
	o := &Operator{store: newStore(&module.Found{Modules: []*module.Module{{Name: "a", Key: "a"}}})}
	live := map[string]string{"a": "country: no\n"}
	config, err := values.ReadConfig(live)
	if err != nil {
		t.Fatal(err)
	}
	o.store.use(config)
	patch, err := values.ParsePatch([]byte(`{"op":"add","path":"/a/x","value":1}`))
	if err != nil {
		t.Fatal(err)
	}
	data, config, err := o.patched(live, "a", patch, nil)
	if err != nil || data["a"] != "country: \"no\"\nx: 1\n" {
		t.Fatalf("%v, the section is %q", err, data["a"])
	}
	if got := fmt.Sprint(config.Modules["a"].Values); got != "map[country:no x:1]" {
		t.Errorf("in force is %s", got)
	}
}
