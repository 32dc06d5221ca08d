package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sealift/sealift/operator/values"
)

// ErrUnknown is in the error for a module that does not exist.
var ErrUnknown = errors.New("there is no such module")

// Status is how a module is.
type Status struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Order   int    `json:"order"`
	Enabled bool   `json:"enabled"`
	Why     string `json:"why"`
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

// key is that of a module in values, or of global values for "".
func (o *Operator) key(module string) (string, error) {
	if module == "" {
		return values.GlobalKey, nil
	}
	for _, u := range o.units {
		if u.Name == module {
			return u.Key, nil
		}
	}
	return "", fmt.Errorf("module %s: %w; 'operator module list' names all", module, ErrUnknown)
}

// Values are the values of a module, or the global ones for "": all that hooks see, or only what the ConfigMap says.
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

// Patches are what hooks have changed in the values of a module, or in global values for "".
func (o *Operator) Patches(module string) ([]values.Operation, error) {
	key, err := o.key(module)
	if err != nil {
		return nil, err
	}
	return o.store.kept(key), nil
}
