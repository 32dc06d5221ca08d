package install

import (
	"context"
	"slices"

	"github.com/sealift/sealift/installer/host/firewall"
	"github.com/sealift/sealift/installer/lifecycle"
	"github.com/sealift/sealift/installer/node"
)

// activeFirewalls returns the firewalls that the Installer lets us open.
func (i *Install) activeFirewalls() []firewall.Firewall {
	ctx, cancel := context.WithTimeout(context.Background(), shortTime)
	defer cancel()
	return slices.DeleteFunc(firewall.Active(ctx), func(w firewall.Firewall) bool { return i.settings.firewalls[w].leave })
}

// disabled is what the step depends on: the firewalls that the Installer wants to be taken down.
func (i *Install) disabled() map[string]string {
	return map[string]string{"firewalld": flag(i.settings.firewalls[firewall.Firewalld].disable), "ufw": flag(i.settings.firewalls[firewall.UFW].disable)}
}

// openFirewall lets nodes and pods through, or disables a firewall if the Installer says so. What that changes in /etc is noted as
// all changes are, and a reset takes it back.
func (i *Install) openFirewall(ctx context.Context) (lifecycle.State, error) {
	values := i.hooks.values()
	opening := firewall.Opening{Address: i.settings.address, Networks: []string{values[node.PodNetwork], values[node.ServiceNetwork]}, Ports: []string{
		"6443/tcp", "6445/tcp", "2379:2380/tcp", "10250/tcp", "10257/tcp", "10259/tcp", // Kubernetes, on control planes and others
		"8472/udp", // flannel
	}}
	for _, w := range i.activeFirewalls() {
		act := func() error { return w.Open(ctx, i.log, opening) }
		if i.settings.firewalls[w].disable {
			act = func() error { return w.Disable(ctx, i.log) }
		}
		if err := act(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
