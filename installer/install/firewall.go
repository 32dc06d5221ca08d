package install

import (
	"context"
	"slices"

	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/lifecycle"
)

// walls are the firewalls of this host that the install is to open: not those of which the Installer says otherwise.
func (i *Install) walls() []host.Wall {
	ctx, cancel := context.WithTimeout(context.Background(), shortTime)
	defer cancel()
	return slices.DeleteFunc(host.ActiveWalls(ctx), func(w host.Wall) bool { return i.leaves(w) })
}

// leaves says whether the Installer wants a wall left as it is (kURL §2.1).
func (i *Install) leaves(w host.Wall) bool {
	v := i.hooks.variables
	if w == host.UFW {
		return v["BYPASS_UFW_WARNING"] == "1"
	}
	return v["BYPASS_FIREWALLD_WARNING"] == "1" || v["PRESERVE_FIREWALLD_CONFIG"] == "1"
}

func (i *Install) wallOptions() map[string]string {
	return map[string]string{"firewalld": i.hooks.variables["DISABLE_FIREWALLD"], "ufw": i.hooks.variables["DISABLE_UFW"]}
}

// openFirewall lets nodes and pods through, or takes a wall down of which the Installer says so. What that changes in /etc is
// noted as all changes are, and taken back by a reset.
func (i *Install) openFirewall(ctx context.Context) (lifecycle.State, error) {
	values := i.hooks.values()
	opening := host.Opening{Address: values["PRIVATE_ADDRESS"], Networks: []string{values["POD_CIDR"], values["SERVICE_CIDR"]}, Ports: []string{
		"6443/tcp", "6445/tcp", "2379:2380/tcp", "10250/tcp", "10257/tcp", "10259/tcp", // Kubernetes, on control planes and others
		"8472/udp", // flannel
	}}
	for _, w := range i.walls() {
		act := func() error { return w.Open(ctx, i.log, opening) }
		if i.wallOptions()[string(w)] == "1" {
			act = func() error { return w.Disable(ctx, i.log) }
		}
		if err := act(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
