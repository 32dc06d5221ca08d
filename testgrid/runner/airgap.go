package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/sealift/sealift/testgrid/machine"
	"github.com/sealift/sealift/testgrid/report"
)

// noNameServer is the name server that the kubernetes add-on gives to a cluster whose hosts have none. Nobody has this address
// (RFC 5737).
const noNameServer = "192.0.2.1"

// findNetworks asks a control plane for the networks of its pods and services. Before kube-proxy has its rules, packets to a
// service take the host's route out.
func (c *cell) findNetworks(ctx context.Context) error {
	script := "grep -ohE -- '--(service-cluster-ip-range|cluster-cidr)=[0-9a-fA-F:./,]+' /etc/kubernetes/manifests/*.yaml | cut -d= -f2 | tr , '\n' | sort -u"
	text, err := machine.Output(ctx, c.machines[0], script)
	if err != nil {
		return err
	}
	for word := range strings.FieldsSeq(text) {
		if network, err := netip.ParsePrefix(word); err == nil {
			c.facts.Inside = append(c.facts.Inside, network)
		}
	}
	return c.facts.save(c.dir)
}

// harmless returns why a packet is not a call to the outside, or "".
func (c *cell) harmless(to machine.Connection) string {
	address, err := netip.ParseAddr(to.Address)
	switch {
	case err != nil:
		return ""
	case to.Address == noNameServer && to.Port == 53:
		return "the name server of clusters without a name server"
	case slices.ContainsFunc(c.facts.Inside, func(network netip.Prefix) bool { return network.Contains(address) }):
		return "an address of the cluster itself"
	}
	return ""
}

// violations fails an airgap test if anything has left its machines.
func (c *cell) violations(ctx context.Context) {
	if !c.test.Airgap || c.result.Verdict == report.Skipped {
		return
	}
	err := c.step(ctx, part{name: "air gap", most: stepTimeout, do: func(ctx context.Context, log io.Writer) error {
		var all []string
		for _, m := range c.machines {
			counter, ok := m.(machine.EgressCounter)
			if !ok {
				return fmt.Errorf("%w: the traffic of %s is not counted", machine.ErrUnable, m.Name())
			}
			left, err := counter.Egress(ctx)
			if err != nil {
				return err
			}
			for _, connection := range left {
				line := fmt.Sprintf("%s sent %d packets to %s", m.Name(), connection.Packets, connection)
				if why := c.harmless(connection); why != "" {
					c.result.Warnings = append(c.result.Warnings, line+", "+why)
					continue
				}
				all = append(all, line)
				c.result.Violations = append(c.result.Violations, connection)
			}
		}
		if len(all) == 0 {
			fmt.Fprintln(log, "nothing has left the machines for another network")
			return nil
		}
		fmt.Fprintln(log, strings.Join(all, "\n"))
		return errors.New(strings.Join(all, "\n"))
	}})
	if err != nil {
		c.fail(err)
	}
}
