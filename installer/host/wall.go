package host

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Wall is a program that manages the firewall of a host.
type Wall string

// The walls that are known.
const (
	Firewalld Wall = "firewalld"
	UFW       Wall = "ufw"
)

// ActiveWalls lists the walls that guard this host now.
func ActiveWalls(ctx context.Context) (active []Wall) {
	if exec.CommandContext(ctx, "systemctl", "--quiet", "is-active", "firewalld").Run() == nil {
		active = append(active, Firewalld)
	}
	status := exec.CommandContext(ctx, "ufw", "status")
	status.Env = append(os.Environ(), "LC_ALL=C.UTF-8") // it answers in the language of the administrator
	if out, err := status.Output(); err == nil && strings.HasPrefix(string(out), "Status: active") {
		active = append(active, UFW)
	}
	return active
}

// Opening is what a wall is to let through.
type Opening struct {
	Ports    []string // such as 6443/tcp or 2379:2380/tcp, from anywhere
	Networks []string // from and to which everything may pass, as prefixes
	// Address of this host, by which the others reach it. Firewalld has a zone for each interface, and the ports are opened in
	// that of this one.
	Address string
}

// zone is firewalld's for the interface that has an address: empty for the default one.
func zone(ctx context.Context, address string) string {
	name := InterfaceOf(address)
	if name == "" {
		return ""
	}
	out, err := exec.CommandContext(ctx, "firewall-cmd", "--get-zone-of-interface="+name).Output()
	if err != nil { // an interface that was given none is in the default zone
		return ""
	}
	return strings.TrimSpace(string(out))
}

// commands are the calls that open a wall for good. What they change lies in /etc.
func (w Wall) commands(o Opening, zone string) (commands [][]string) {
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

func (w Wall) reload() []string {
	if w == Firewalld {
		return []string{"firewall-cmd", "--reload"}
	}
	return []string{"ufw", "reload"}
}

// Open lets something through a wall, now and after a restart. What is open already stays so.
func (w Wall) Open(ctx context.Context, output io.Writer, o Opening) error {
	in := ""
	if w == Firewalld {
		in = zone(ctx, o.Address)
	}
	return calls(ctx, output, w.commands(o, in))
}

// Reload makes a wall do what its settings in /etc say.
func (w Wall) Reload(ctx context.Context, output io.Writer) error {
	return calls(ctx, output, [][]string{w.reload()})
}

// Disable takes a wall down for good.
func (w Wall) Disable(ctx context.Context, output io.Writer) error {
	if w == Firewalld {
		return calls(ctx, output, [][]string{{"systemctl", "disable", "--now", "firewalld"}})
	}
	return calls(ctx, output, [][]string{{"ufw", "disable"}})
}

// Restore puts a wall up again that was taken down, once its settings in /etc are what they were.
func (w Wall) Restore(ctx context.Context, output io.Writer) error {
	return calls(ctx, output, [][]string{{"systemctl", "restart", string(w)}})
}

func calls(ctx context.Context, output io.Writer, commands [][]string) error {
	for _, c := range commands {
		if err := Command(ctx, output, c[0], c[1:]...); err != nil {
			return fmt.Errorf("firewall: %w", err)
		}
	}
	return nil
}
