package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/values"
)

// The variables that name the files with values, and those with patches of them.
const (
	valuesFile      = "VALUES_PATH"
	configFile      = "CONFIG_VALUES_PATH"
	valuesPatchFile = "VALUES_JSON_PATCH_PATH"
	configPatchFile = "CONFIG_VALUES_JSON_PATCH_PATH"
)

// owner gives the hooks of one section their values, and applies their patches. The section is that of a module or of global
// values.
type owner struct {
	operator *Operator
	key      string
	unit     *unit // nil for global values
	// changed is called when an event has led a hook to change values.
	changed func()
	// unreported records a change of a run that failed later, so that its repetition reports it.
	unreported atomic.Bool
}

// Files are the values.
func (o *owner) Files() (map[string][]byte, error) {
	config, all, err := o.operator.store.forHooks(o.key, nil)
	return map[string][]byte{configFile: config, valuesFile: all}, err
}

// Ending reports whether a reload waits that will switch the module off.
func (o *owner) Ending() bool { return o.unit != nil && o.operator.ending(o.unit) }

// Off reports whether the module is off, and will be deleted.
func (o *owner) Off() bool {
	if o.unit == nil {
		return false
	}
	o.operator.mu.Lock()
	defer o.operator.mu.Unlock()
	return !o.unit.enabled
}

// Answers are the patches.
func (*owner) Answers() []string { return []string{valuesPatchFile, configPatchFile} }

// Take applies patches: first the persistent one, then the one in memory.
func (o *owner) Take(ctx context.Context, _ *engine.Hook, contexts []binding.Context, answers map[string][]byte) error {
	lasting, err := values.ParsePatch(answers[configPatchFile])
	passing, err2 := values.ParsePatch(answers[valuesPatchFile])
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	wrote, flagged, err := o.operator.patchConfig(ctx, o.key, lasting)
	if counts(contexts, wrote, flagged) {
		o.unreported.Store(true)
	}
	if err != nil {
		return err
	}
	changed, flagged, err := o.operator.store.patch(o.key, passing)
	if err != nil {
		return err
	}
	if happened(contexts) && o.unreported.Swap(false) || counts(contexts, changed, flagged) {
		o.changed()
	}
	return nil
}

// counts reports whether a change of something, or of flags, has an effect. Flags of a synchronization have one: nobody waits for one in a
// queue of its own, and modules may be discovered before it.
func counts(contexts []binding.Context, changed, flagged bool) bool {
	return changed && isEvent(contexts) || flagged && happened(contexts)
}

// happened reports whether a run is about the cluster or the time, and not about a step of the operator.
func happened(contexts []binding.Context) bool {
	return slices.ContainsFunc(contexts, func(c binding.Context) bool { return c.Type == binding.OnSchedule || c.Type == binding.OnKubernetes })
}

// isEvent reports whether an event caused a run, whose changes of values have effects. Those of a start and of a synchronization
// have none, since what needs the values runs after them anyway. A late synchronization is after that, like an event.
func isEvent(contexts []binding.Context) bool {
	return slices.ContainsFunc(contexts, func(c binding.Context) bool {
		return c.Type == binding.OnSchedule || c.Type == binding.OnKubernetes && (c.Moment != binding.Synchronization || c.Late)
	})
}
