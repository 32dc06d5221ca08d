package kube

import "cmp"

// Manager is the default field manager of an engine.
const Manager = "sealift"

// concurrency is how many objects are in flight at once. It keeps the API server of a one-node cluster on two cores busy
// without starving its kubelet.
const concurrency = 8

// defaultTakeOver names the managers of people and of the tools that Sealift replaces. Fields that they set count as set by the
// engine: the next Apply overwrites them, and removes those that the objects do not have.
func defaultTakeOver() []string {
	return []string{clientSideApply, "kubectl-edit", "kops"}
}

// Options configure an Engine. The installer uses the zero value.
type Options struct {
	// Manager is the field manager to apply under, for records that another tool shall find as it would have written them.
	// Empty is the constant Manager.
	Manager string
	// TakeOver lists the field managers whose fields the engine takes without asking. Nil is kubectl-client-side-apply,
	// kubectl-edit and kops; an empty list is none.
	TakeOver []string
}

// Engine applies, prunes and waits against its cluster. It may be used by several goroutines at once.
type Engine struct {
	*Cluster
	manager  string
	takeOver map[string]bool
}

// New makes an Engine for a cluster.
func New(c *Cluster, o Options) *Engine {
	e := &Engine{Cluster: c, manager: cmp.Or(o.Manager, Manager), takeOver: map[string]bool{}}
	managers := o.TakeOver
	if managers == nil {
		managers = defaultTakeOver()
	}
	for _, manager := range managers {
		e.takeOver[manager] = manager != e.manager
	}
	return e
}
