package install

import (
	"context"
	"time"

	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

// Adopted is a node that another installer made.
type Adopted struct {
	First      bool         // it made the cluster; the others joined it
	Kubernetes string       // version that runs, such as 1.35.4
	AddOns     []node.AddOn // besides Kubernetes
	Networks   node.ClusterNetworks
}

// Records returns the steps with which the journal of the node says the same as after an install or a join of ours. Running them
// changes nothing on the host. The last one makes the node count as a node of ours.
func (a Adopted) Records() lifecycle.Plan {
	var plan lifecycle.Plan
	record := func(id, addOn, title string, phase lifecycle.Phase, inputs string, state lifecycle.State) {
		plan = append(plan, lifecycle.Step{ID: id, Phase: phase, AddOn: addOn, Title: title, Inputs: inputs, Timeout: time.Minute,
			Run: func(context.Context) (lifecycle.State, error) { return state, nil }})
	}
	last, phase, title := node.JoinStep, lifecycle.Join, "take over the node of the cluster"
	if a.First {
		last, phase, title = node.InitStep, lifecycle.Install, "take over the node that made the cluster"
		record(node.NetworkStep, "", "note the networks of pods and services", lifecycle.PreInit, lifecycle.Digest(a.Networks.Pods, a.Networks.Services),
			a.Networks.State())
	}
	for _, one := range a.AddOns {
		record(one.Name+"/"+installStep, one.Name, "note that "+one.Name+" "+one.Version+" runs", phase,
			lifecycle.Digest("adopted", one.Version), lifecycle.State{addOnVersion: one.Version})
	}
	record(last, kubernetesCapability, title, phase, initInputs, lifecycle.State{versionState: a.Kubernetes, addOnVersion: a.Kubernetes})
	return plan
}
