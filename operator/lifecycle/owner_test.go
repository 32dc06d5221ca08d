package lifecycle

import (
	"testing"

	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/module"
	"github.com/sealift/sealift/operator/values"
)

// TestFlagsOfSynchronizationsCount: values of a start are used after it anyway, but modules may be discovered before a synchronization.
func TestFlagsOfSynchronizationsCount(t *testing.T) {
	const flag, value = `{"op":"add","path":"/aEnabled","value":true}`, `{"op":"add","path":"/global/x","value":1}`
	synchronization := binding.Context{Type: binding.OnKubernetes, Moment: binding.Synchronization}
	event := binding.Context{Type: binding.OnKubernetes, Moment: binding.OneEvent}
	for _, row := range []struct {
		context binding.Context
		patch   string
		counts  bool
	}{
		{binding.Context{Type: binding.OnStartup}, flag, false},
		{binding.Context{Type: binding.BeforeAll}, flag, false},
		{binding.Context{Type: binding.AfterAll}, flag, false},
		{synchronization, flag, true},
		{synchronization, value, false},
		{event, flag, true},
		{event, value, true},
		{binding.Context{Type: binding.OnSchedule}, flag, true},
	} {
		reloads := 0
		o := &owner{operator: &Operator{store: newStore(&module.Found{})}, key: values.GlobalKey, changed: func() { reloads++ }}
		for range 2 { // the second time nothing changes
			if err := o.Take(t.Context(), nil, []binding.Context{row.context}, map[string][]byte{valuesPatchFile: []byte(row.patch)}); err != nil {
				t.Fatal(err)
			}
		}
		if want := map[bool]int{true: 1}[row.counts]; reloads != want {
			t.Errorf("%s %s of %s: %d reloads", row.context.Type, row.context.Moment, row.patch, reloads)
		}
	}
}
