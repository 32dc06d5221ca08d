// Package firewall opens firewalld or ufw for a cluster, and knows the rules that a cluster leaves in the kernel.
package firewall

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/network"
)

// Firewall is a program that manages the firewall of a host.
type Firewall string

// The programs that are known.
const (
	Firewalld Firewall = "firewalld"
	UFW       Firewall = "ufw"
)

// Active lists the firewalls that guard this host now.
func Active(ctx context.Context) (active []Firewall) {
	if state, _ := command.UnitState(ctx, "firewalld"); state == "active" || state == "reloading" {
		active = append(active, Firewalld)
	}
	status := exec.CommandContext(ctx, "ufw", "status")
	status.Env = command.Environ() // it answers in the language of the administrator
	if out, err := status.Output(); err == nil && strings.HasPrefix(string(out), "Status: active") {
		active = append(active, UFW)
	}
	return active
}

// Opening is the traffic that a firewall must let through.
type Opening struct {
	Ports    []string // such as 6443/tcp or 2379:2380/tcp, from anywhere
	Networks []string // from and to which everything may pass, as prefixes
	// Address of this host, by which the others reach it. Firewalld has a zone for each interface, and the ports are opened in
	// this one's.
	Address string
}

// zone is firewalld's for the interface that has an address: empty for the default one.
func zone(ctx context.Context, address string) string {
	name := network.InterfaceOf(address)
	if name == "" {
		return ""
	}
	out, err := exec.CommandContext(ctx, "firewall-cmd", "--get-zone-of-interface="+name).Output()
	if err != nil { // an interface that was given none is in the default zone
		return ""
	}
	return strings.TrimSpace(string(out))
}

// commands are the calls that open a firewall permanently. They change files in /etc.
func (w Firewall) commands(o Opening, zone string) (commands [][]string) {
	switch w {
	case Firewalld:
		for _, port := range o.Ports {
			call := []string{"firewall-cmd", "--permanent", "--add-port=" + strings.ReplaceAll(port, ":", "-")}
			if zone != "" {
				call = append(call, "--zone="+zone)
			}
			commands = append(commands, call)
		}
		for _, network := range o.Networks {
			commands = append(commands, []string{"firewall-cmd", "--permanent", "--zone=trusted", "--add-source=" + network})
		}
	case UFW:
		for _, port := range o.Ports {
			commands = append(commands, []string{"ufw", "allow", port, "comment", "sealift"})
		}
		for _, network := range o.Networks {
			for _, args := range [][]string{{"allow", "from", network}, {"route", "allow", "from", network}, {"route", "allow", "to", network}} {
				commands = append(commands, append(append([]string{"ufw"}, args...), "comment", "sealift"))
			}
		}
	}
	return append(commands, w.reload())
}

func (w Firewall) reload() []string {
	if w == Firewalld {
		return []string{"firewall-cmd", "--reload"}
	}
	return []string{"ufw", "reload"}
}

// Open opens a firewall for traffic, now and after a restart. It closes nothing.
func (w Firewall) Open(ctx context.Context, output io.Writer, o Opening) error {
	in := ""
	if w == Firewalld {
		in = zone(ctx, o.Address)
	}
	return calls(ctx, output, w.commands(o, in))
}

// Reload makes a firewall do what its settings in /etc say.
func (w Firewall) Reload(ctx context.Context, output io.Writer) error {
	return calls(ctx, output, [][]string{w.reload()})
}

// Disable disables a firewall permanently.
func (w Firewall) Disable(ctx context.Context, output io.Writer) error {
	if w == Firewalld {
		return calls(ctx, output, [][]string{{"systemctl", "disable", "--now", "firewalld"}})
	}
	return calls(ctx, output, [][]string{{"ufw", "disable"}})
}

// Restore starts a firewall that was stopped, after its settings in /etc have been restored.
func (w Firewall) Restore(ctx context.Context, output io.Writer) error {
	return calls(ctx, output, [][]string{{"systemctl", "restart", string(w)}})
}

func calls(ctx context.Context, output io.Writer, commands [][]string) error {
	for _, c := range commands {
		if err := command.Run(ctx, output, c[0], c[1:]...); err != nil {
			return fmt.Errorf("firewall: %w", err)
		}
	}
	return nil
}
