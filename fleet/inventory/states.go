package inventory

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/rollout"
)

// States stores the state of a rollout, for each placement of an add-on.
type States map[ocm.ConfigObject]rollout.State

// StatesName is the name of the ConfigMap, in the hub's namespace, that stores the States of an add-on.
func StatesName(addOn string) string { return "rollout." + addOn }

// ReadStates reads the data of the ConfigMap. States that cannot be read are left out, each with an error.
func ReadStates(data map[string]string) (States, []error) {
	all := make(States)
	var errs []error
	for key, text := range data {
		var state rollout.State
		if err := json.Unmarshal([]byte(text), &state); err != nil {
			errs = append(errs, fmt.Errorf("placement %s: %w", key, err))
			continue
		}
		namespace, name, _ := strings.Cut(key, ".") // a namespace has no dot
		all[ocm.ConfigObject{Namespace: namespace, Name: name}] = state
	}
	return all, errs
}

// Data returns the data of the ConfigMap, for the placements that the add-on has.
func (s States) Data(addOn *ocm.ClusterManagementAddOn) (map[string]string, error) {
	data := make(map[string]string)
	for _, p := range addOn.Spec.InstallStrategy.Placements {
		state, found := s[p.ConfigObject]
		if !found || len(state.Targets) == 0 {
			continue // a state without targets says nothing
		}
		text, err := json.Marshal(state)
		if err != nil {
			return nil, err
		}
		data[p.Namespace+"."+p.Name] = string(text)
	}
	return data, nil
}
