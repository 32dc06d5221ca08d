package install

import (
	"slices"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

// Hardening returns what the pending steps set because of the Installer's cisCompliance or hardening: everything in a new cluster, and the
// kubelet's part on a host that joins one. A cluster that exists keeps what it has.
func (i *Install) Hardening() []cluster.Setting {
	pending := func(id string) bool {
		return slices.ContainsFunc(i.Pending(), func(s lifecycle.Step) bool { return s.ID == id })
	}
	switch {
	case pending(node.InitStep):
		all := cluster.Hardening(i.vars)
		if len(all) > 0 && cluster.Encrypts(i.vars) {
			all = append(all, cluster.EncryptionSetting())
		}
		return all
	case pending(node.JoinStep):
		return slices.DeleteFunc(cluster.Hardening(i.vars), func(s cluster.Setting) bool { return !s.OfNode() })
	}
	return nil
}
