// Package values computes the values of modules: names and keys, layers, the ConfigMap that administrators edit, and the
// patches of hooks.
//
// Values are plain data as encoding/json decodes them. All functions leave their arguments unchanged.
package values

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/sealift/sealift/helm"
)

// GlobalKey is the key of the values that all modules see. EnabledSuffix ends the key of the flag that enables a module,
// MaintenanceSuffix that of its maintenance.
const (
	GlobalKey         = "global"
	EnabledSuffix     = helm.EnabledSuffix
	MaintenanceSuffix = "Maintenance"
)

// Key is the key of a module in values: the name in camel case, such as ingressNginx for ingress-nginx.
func Key(module string) string { return helm.ModuleKey(module) }

// Merge lays values over each other. Later layers win. Maps are merged at any depth; lists, scalars and null replace.
func Merge(layers ...map[string]any) map[string]any {
	out := map[string]any{}
	for _, layer := range layers {
		for key, value := range layer {
			below, belowIsMap := out[key].(map[string]any)
			above, aboveIsMap := value.(map[string]any)
			switch {
			case belowIsMap && aboveIsMap:
				out[key] = Merge(below, above)
			case aboveIsMap:
				out[key] = Merge(above) // a copy
			default:
				out[key] = value
			}
		}
	}
	return out
}

// Sections are the values that a module, or a global hook, sees: those of the keys, in a separate map.
func Sections(all map[string]any, keys ...string) map[string]any {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(key string, _ any) bool {
		return !slices.Contains(keys, key)
	})
	return out
}

func decode(document []byte) (out map[string]any, err error) {
	err = json.Unmarshal(document, &out)
	if err == nil && out == nil {
		err = errors.New("the values are not an object")
	}
	return out, err
}

func throughJSON(values map[string]any) (map[string]any, error) {
	data, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	return decode(data)
}
