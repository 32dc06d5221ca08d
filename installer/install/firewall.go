package install

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/host/firewall"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/preflight"
)

// openable returns the active firewalls that the Installer lets us open.
func (j *job) openable(active []firewall.Firewall) []firewall.Firewall {
	return slices.DeleteFunc(slices.Clone(active), func(w firewall.Firewall) bool { return j.settings.firewalls[w].leave })
}

// disabled is the input of the step: the firewalls that the Installer disables.
func (j *job) disabled() map[string]string {
	return map[string]string{"firewalld": flag(j.settings.firewalls[firewall.Firewalld].disable), "ufw": flag(j.settings.firewalls[firewall.UFW].disable)}
}

// The ports that other nodes and pods connect to.
const (
	kubeletPort = "10250/tcp"
	flannelPort = "8472/udp"
)

// controlPlanePorts are those of a control plane in addition to the kubelet's: the API server, files for joining hosts, and etcd.
func controlPlanePorts() []string { return []string{"6443/tcp", "6445/tcp", "2379:2380/tcp"} }

// firewallRules looks for rules that drop the traffic of the cluster, which neither firewalld nor ufw made: the install does not change them.
func (j *job) firewallRules(role preflight.Role, resumed bool) func(context.Context, *preflight.Reporter) {
	return func(ctx context.Context, r *preflight.Reporter) {
		var t firewall.Traffic
		networks := j.currentNetworks()
		if networks[node.PodNetwork] == "" {
			networks, _ = j.settleNetworks() // another check reports why not
		}
		for _, name := range []string{node.PodNetwork, node.PodNetwork6} {
			if p, err := netip.ParsePrefix(networks[name]); err == nil {
				t.Pods = append(t.Pods, p)
			}
		}
		if slices.ContainsFunc(j.addOns, func(a addOn) bool { return a.name() == "flannel" }) {
			t.Ports, t.PodLink = append(t.Ports, flannelPort), "cni0"
		}
		droppedTraffic(ctx, r, t, role, resumed)
	}
}

// droppedTraffic reports the chains that drop traffic to a node with a role. On a node that works it only warns.
func droppedTraffic(ctx context.Context, r *preflight.Reporter, t firewall.Traffic, role preflight.Role, resumed bool) {
	if role == preflight.NoNode {
		r.Passf("none are needed")
		return
	}
	t.Ports = append(t.Ports, kubeletPort)
	if role == preflight.ControlPlane {
		t.Ports = append(controlPlanePorts(), t.Ports...)
	}
	found, err := firewall.Blocking(ctx, t, firewall.Active(ctx))
	if err != nil {
		r.Warnf("see why", "cannot tell what the rules of this host drop: %v", err)
		return
	}
	report := r.Failf
	if resumed {
		report = r.Warnf
	}
	for _, b := range found {
		report(strings.Join(b.Commands, " && ")+"; and "+b.Keep, "%s drops what the cluster needs: %s", b.Chain, strings.Join(b.What, "; "))
	}
	if len(found) == 0 {
		r.Passf("no rules of others drop what the cluster needs")
	}
}

// openFirewall lets nodes and pods through, or disables a firewall if the Installer says so. Changes in /etc are recorded like all
// changes, and reverted by a reset.
func (i *Install) openFirewall(ctx context.Context) (lifecycle.State, error) {
	opening := firewall.Opening{Address: i.settings.address, Networks: i.hooks.networks(), Ports: append(controlPlanePorts(), kubeletPort, "10257/tcp", "10259/tcp", flannelPort)}
	for _, w := range i.openable(firewall.Active(ctx)) {
		act := func() error { return w.Open(ctx, i.Log, opening) }
		if i.settings.firewalls[w].disable {
			act = func() error { return w.Disable(ctx, i.Log) }
		}
		if err := act(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
