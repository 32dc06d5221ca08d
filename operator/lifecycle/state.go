package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/values"
)

// ErrUnknown is in the error for a module that does not exist.
var ErrUnknown = errors.New("module not found")

// Status is the state of a module.
type Status struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Order   int    `json:"order"`
	Enabled bool   `json:"enabled"`
	Why     string `json:"why"` // who switched it on or off
	Hooks   int    `json:"hooks"`
}

// Modules lists all modules, in the order in which they run. Before the first discovery none is on.
func (o *Operator) Modules() []Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]Status, len(o.units))
	for i, u := range o.units {
		all[i] = Status{u.Name, u.Path, u.Order, u.enabled, u.why, len(u.hooks)}
	}
	return all
}

// unit finds a module by its name.
func (o *Operator) unit(name string) (*unit, error) {
	for _, u := range o.units {
		if u.Name == name {
			return u, nil
		}
	}
	return nil, fmt.Errorf("module %s: %w; 'operator module list' names all", name, ErrUnknown)
}

// key is the key of a module in values, or of global values for "".
func (o *Operator) key(module string) (string, error) {
	if module == "" {
		return values.GlobalKey, nil
	}
	u, err := o.unit(module)
	if err != nil {
		return "", err
	}
	return u.Key, nil
}

// Values are the values of a module, or the global ones for "": all that hooks see, or only those of the ConfigMap.
func (o *Operator) Values(module string, configured bool) (any, error) {
	key, err := o.key(module)
	if err != nil {
		return nil, err
	}
	config, all, err := o.store.forHooks(key, nil)
	if err != nil {
		return nil, err
	}
	if configured {
		all = config
	}
	var sections map[string]any
	err = json.Unmarshal(all, &sections)
	return sections[key], err
}

// Patches are the changes by hooks in the values of a module, or in global values for "".
func (o *Operator) Patches(module string) ([]values.Operation, error) {
	key, err := o.key(module)
	if err != nil {
		return nil, err
	}
	return o.store.kept(key), nil
}

// Snapshots are the objects that the hooks of a module see, or global hooks for "", by hook and binding.
func (o *Operator) Snapshots(module string) (map[string]map[string][]binding.Object, error) {
	hooks := o.global
	if module != "" {
		u, err := o.unit(module)
		if err != nil {
			return nil, err
		}
		o.mu.Lock()
		hooks = u.hooks
		o.mu.Unlock()
	}
	all := map[string]map[string][]binding.Object{}
	for _, h := range hooks {
		all[h.Name] = h.Snapshots()
	}
	return all, nil
}

// GlobalHooks names the global hooks.
func (o *Operator) GlobalHooks() []string {
	names := make([]string, len(o.global))
	for i, h := range o.global {
		names[i] = h.Name
	}
	return names
}

// Manifest is the rendered chart of a module at its last run.
func (o *Operator) Manifest(module string) (string, error) {
	u, err := o.unit(module)
	if err != nil {
		return "", err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return u.manifest, nil
}

// Monitor is the state of the objects of a module's chart.
type Monitor struct {
	Module  string   `json:"module"`
	Objects int      `json:"objects"`
	Absent  []string `json:"absent"`
}

// Monitored looks for the objects of all modules' charts.
func (o *Operator) Monitored(ctx context.Context) (all []Monitor, err error) {
	survey := o.newSurvey()
	for _, u := range o.units {
		o.mu.Lock()
		manifest, objects := u.manifest, len(u.refs)
		o.mu.Unlock()
		if manifest == "" {
			continue
		}
		absent, err := o.absent(ctx, u, survey, manifest, false)
		if err != nil {
			return nil, err
		}
		all = append(all, Monitor{u.Name, objects, absent})
	}
	return all, nil
}

// Progress is how far reloads of all modules are, with addon-operator's names. Numbers are tasks of the main queue, and 0
// outside of their phase: readers add them.
type Progress struct {
	NotStarted bool `json:"STARTUP_CONVERGE_NOT_STARTED"`
	Starting   int  `json:"STARTUP_CONVERGE_IN_PROGRESS"`
	Started    bool `json:"STARTUP_CONVERGE_DONE"`
	InProgress int  `json:"CONVERGE_IN_PROGRESS"`
	Waiting    bool `json:"CONVERGE_WAIT_TASK"`
}

// Status is the progress of reloads of all modules.
func (o *Operator) Status() Progress {
	tasks := o.engine.Queues().Lengths()[binding.MainQueue]
	o.mu.Lock()
	defer o.mu.Unlock()
	switch s := o.state; {
	case !s.started:
		return Progress{NotStarted: true}
	case !s.done:
		return Progress{Starting: tasks}
	case s.running || s.waiting:
		return Progress{Started: true, InProgress: tasks}
	}
	return Progress{Started: true, Waiting: true}
}
