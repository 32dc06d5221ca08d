package node

import (
	"os"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/journal/lifecycle"
)

// The variables of hooks with the networks of the cluster, which the journal has in the state of the step that chose them. A
// dual-stack cluster has two of each: IPv4 first.
const (
	PodNetwork      = "POD_CIDR"
	ServiceNetwork  = "SERVICE_CIDR"
	PodNetwork6     = "POD_CIDR6"
	ServiceNetwork6 = "SERVICE_CIDR6"
)

// NetworkVariables lists these variables.
func NetworkVariables() []string {
	return []string{PodNetwork, ServiceNetwork, PodNetwork6, ServiceNetwork6}
}

// ClusterNetworks are the networks of a cluster as kubeadm's configuration names them. In a dual-stack cluster, each field
// has two with a comma between them, IPv4 first.
type ClusterNetworks struct {
	Pods     string `json:"pods"`
	Services string `json:"services"`
}

// State is the state of a step that chose the networks.
func (n ClusterNetworks) State() lifecycle.State {
	state := lifecycle.State{}
	for _, of := range []struct{ text, first, second string }{{n.Pods, PodNetwork, PodNetwork6}, {n.Services, ServiceNetwork, ServiceNetwork6}} {
		one, two, both := strings.Cut(of.text, ",")
		if state[of.first] = one; both {
			state[of.second] = two
		}
	}
	return state
}

// List lists the networks one by one.
func (n ClusterNetworks) List() []string {
	return append(strings.Split(n.Pods, ","), strings.Split(n.Services, ",")...)
}

// Networks are those of the cluster, from the journal, or on a joining host from the last run.
func Networks(root string, records []lifecycle.Record) (found []string, err error) {
	run, err := LastRun(root)
	// Earlier adoptions recorded the two networks of a dual-stack cluster as one text.
	found = slices.DeleteFunc(strings.Split(strings.Join(run.Networks, ","), ","), func(n string) bool { return n == "" })
	if os.IsNotExist(err) {
		err = nil
	}
	for _, rec := range records {
		for _, name := range NetworkVariables() {
			if value := rec.State[name]; value != "" && !slices.Contains(found, value) {
				found = append(found, value)
			}
		}
	}
	return found, err
}
