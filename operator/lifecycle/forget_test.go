package lifecycle

import (
	"log/slog"
	"testing"

	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/module"
	"github.com/sealift/sealift/operator/values"
)

// TestDeletedModuleLeavesNoPatches: if it is switched on again, its hooks and its chart begin with the values of files and of the ConfigMap.
func TestDeletedModuleLeavesNoPatches(t *testing.T) {
	one := &module.Module{Name: "a", Key: "a"}
	o := &Operator{
		engine: engine.New(engine.Options{Modules: true}), store: newStore(&module.Found{Modules: []*module.Module{one}}),
		log: slog.New(slog.DiscardHandler),
	}
	u := &unit{Module: one, loaded: true}
	u.owner = &owner{operator: o, key: "a", unit: u}
	u.owner.unreported.Store(true)
	patch, err := values.ParsePatch([]byte(`{"op":"add","path":"/a/x","value":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.store.patch("a", patch); err != nil || len(o.store.kept("a")) != 1 {
		t.Fatal(err)
	}
	if err := o.remove(t.Context(), nil, u, "configChanged"); err != nil {
		t.Fatal(err)
	}
	if kept := o.store.kept("a"); len(kept) > 0 || u.owner.unreported.Load() {
		t.Errorf("kept are %v", kept)
	}
}
