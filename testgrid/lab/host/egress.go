package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
)

// Packets are those that a host has sent to one address outside of the lab's network. They were dropped.
type Packets struct {
	Address  netip.Addr
	Protocol string // tcp, udp, icmp, … as nft(8) names it
	Port     int    // 0 if the protocol has no ports
	Count    int64
}

// table is the name of the host's own table of rules, in the machine's network.
func (h *Host) table() string {
	return "sealift_lab_" + h.rack.id + "_" + strings.ReplaceAll(h.state.Name, "-", "_")
}

// egressRules drop a host's packets to other networks, and count them by destination. Broadcasts and multicasts go no further
// than the lab's network anyway.
const egressRules = `
table bridge %[1]s {
	set ports { type ipv4_addr . inet_proto . inet_service; size 65535; flags dynamic; counter; }
	set ports6 { type ipv6_addr . inet_proto . inet_service; size 65535; flags dynamic; counter; }
	set others { type ipv4_addr . inet_proto; size 65535; flags dynamic; counter; }
	set others6 { type ipv6_addr . inet_proto; size 65535; flags dynamic; counter; }
	chain out4 {
		meta l4proto { tcp, udp, sctp } update @ports { ip daddr . meta l4proto . th dport } drop
		update @others { ip daddr . meta l4proto } drop
	}
	chain out6 {
		meta l4proto { tcp, udp, sctp } update @ports6 { ip6 daddr . meta l4proto . th dport } drop
		update @others6 { ip6 daddr . meta l4proto } drop
	}
	chain leave {
		type filter hook prerouting priority 0; policy accept;
		iifname != "%[2]s" accept
		ip daddr { 224.0.0.0/4, 255.255.255.255 } accept
		ip daddr %[3]s goto out4
		ip daddr != %[4]s goto out4
		ip6 daddr { fe80::/10, ff00::/8 } accept
		ip6 daddr %[5]s goto out6
		ip6 daddr != %[6]s goto out6
	}
}
`

// watchEgress installs the rules that drop and count. They match the port of the bridge that the host is plugged into, which
// keeps its name when the host reboots.
func (h *Host) watchEgress(ctx context.Context) error {
	port, err := h.platform().port()
	if err != nil {
		return err
	}
	return nft(ctx, fmt.Sprintf(egressRules, h.table(), port, gateway(network4), network4, gateway(network6), network6), nil, "-f", "-")
}

// forgetEgress removes the rules. If there are none, it does nothing.
func (h *Host) forgetEgress(ctx context.Context) error {
	if !h.state.Exit {
		return nil
	}
	// Adding a table that exists does nothing, and deleting one that does not exist fails.
	return nft(ctx, fmt.Sprintf("add table bridge %[1]s\ndelete table bridge %[1]s\n", h.table()), nil, "-f", "-")
}

// Egress returns the packets that the host has sent to other networks since it was booted first. The host must have an exit.
func (h *Host) Egress(ctx context.Context) ([]Packets, error) {
	if !h.state.Exit {
		return nil, fmt.Errorf("host %s has no egress, so its traffic is not counted", h.state.Name)
	}
	var out strings.Builder
	if err := nft(ctx, "", &out, "--json", "list", "table", "bridge", h.table()); err != nil {
		return nil, err
	}
	all, err := parsePackets(out.String())
	if err != nil {
		return nil, fmt.Errorf("read the traffic counters of host %s: %w", h.state.Name, err)
	}
	return all, nil
}

// parsePackets reads the elements of sets as nft prints them, libnftables-json(5).
func parsePackets(text string) ([]Packets, error) {
	var answer struct {
		Nftables []struct {
			Set *struct {
				Elem []struct {
					Elem struct {
						Val     struct{ Concat []any }
						Counter struct{ Packets int64 }
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, err
	}
	var all []Packets
	for _, object := range answer.Nftables {
		if object.Set == nil {
			continue
		}
		for _, e := range object.Set.Elem {
			key := e.Elem.Val.Concat
			if len(key) < 2 {
				return nil, fmt.Errorf("a destination has %d parts", len(key))
			}
			address, err := netip.ParseAddr(fmt.Sprint(key[0]))
			if err != nil {
				return nil, err
			}
			p := Packets{Address: address, Protocol: fmt.Sprint(key[1]), Count: e.Elem.Counter.Packets}
			if len(key) > 2 {
				port, _ := key[2].(float64)
				p.Port = int(port)
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// CutNetwork pulls the host's network cable. restore plugs it in again.
func (h *Host) CutNetwork(ctx context.Context) (restore func(context.Context) error, err error) {
	port, err := h.platform().port()
	if err != nil {
		return nil, err
	}
	if err := ip(ctx, "link", "set", "dev", port, "down"); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return ip(ctx, "link", "set", "dev", port, "up") }, nil
}

// nft changes or prints the machine's rules.
func nft(ctx context.Context, input string, output *strings.Builder, args ...string) error {
	cmd := exec.CommandContext(ctx, "nft", args...)
	var stderr strings.Builder
	cmd.Stdin, cmd.Stderr = strings.NewReader(input), &stderr
	if output != nil {
		cmd.Stdout = output
	}
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("count the traffic of a host: %w; install it with: apt-get install -y nftables", err)
	}
	if err != nil {
		return fmt.Errorf("nft %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return nil
}
