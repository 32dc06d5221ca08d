package install

import (
	"context"
	"fmt"
	"os"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

// applied is the owner's record of an add-on that a hook applies. A hook may apply under a name that is not an add-on's of the
// bundle: that has no version.
func (j *job) applied(name string) cluster.AddOn {
	for _, a := range j.addOns {
		if a.name() == name {
			return cluster.AddOn{Name: name, Memory: node.MemoryDir(j.options.Root), Applied: addon.Applied{
				Version: a.info.Version, Digest: a.info.Index, Options: lifecycle.Digest(a.info.Index, a.reads(j.vars)),
			}}
		}
	}
	return cluster.AddOn{Name: name, Memory: node.MemoryDir(j.options.Root)}
}

// readOwners reads who owns the add-ons of a cluster that this host has made before. An add-on that was given back is applied
// again, since its owner may have changed it. A cluster that does not answer is no obstacle: each add-on is checked again
// before it is applied.
func (i *Install) readOwners(ctx context.Context) {
	if _, err := os.Stat(kubeadm.AdminKubeconfig); err != nil || i.Joins() {
		return
	}
	view, err := cluster.NewView()
	if err != nil || view == nil {
		return
	}
	records, err := view.Owners(ctx)
	if err != nil {
		i.kept = append(i.kept, fmt.Sprintf("who owns the add-ons of the cluster is not known: %v", err))
	}
	i.respect(records)
}

// respect notes the add-ons that others keep, and plans to apply those that were given back.
func (i *Install) respect(records []addon.Record) {
	for _, r := range records {
		wanted := i.applied(r.Name).Applied
		switch {
		case wanted.Digest == "":
		case r.Owner != addon.Installer():
			i.kept = append(i.kept, cluster.KeptBy(r))
		case r.Released != nil && r.Applied != wanted:
			i.again(r, fmt.Sprintf(" again, since %s gave it back", r.Released))
		case r.Applied != addon.Applied{} && r.Applied != wanted: // an upgrade was rolled back
			i.again(r, "")
		}
	}
}

// again repeats the step that applies an add-on, and the one that waits for it.
func (i *Install) again(r addon.Record, why string) {
	for n := range i.plan {
		switch step := &i.plan[n]; step.ID {
		case r.Name + "/" + installStep:
			step.Again = true
			step.Title += why
		case node.ReadyStep:
			step.Again = true
		}
	}
}

// Kept names the add-ons that another owner keeps, one line each.
func (i *Install) Kept() []string { return i.kept }
