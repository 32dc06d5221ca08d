// Package service has the two services of a node, which are sealift itself: one connects to the cluster's API, one serves files to
// joining hosts. It also knows their units of systemd.
package service

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/textfile"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/hostpath"
)

// Unit is a service of sealift itself.
type Unit struct {
	Name string
	Text string // of its file
}

// Balancer reaches the API of the cluster for a node.
func Balancer(root string) Unit {
	return Unit{"sealift-api.service", unit("the Kubernetes API of the cluster, on this node", "balance", 512, root)}
}

// Sharer serves files to joining hosts.
func Sharer(root string) Unit {
	return Unit{"sealift-node.service", unit("files for hosts that join the cluster", "share", 512, root)}
}

// AgentOptions are the options of the agent in the Installer.
type AgentOptions struct {
	Metrics string // folder for its metrics; "" for none
	Mirror  bool   // containerd asks control planes for images
}

// Agent renews the certificates of the node, lets another node of the cluster lead its upgrade, and writes metrics into the default folder.
func Agent(root string) Unit { return AgentWith(root, AgentOptions{Metrics: textfile.DefaultFolder}) }

// AgentWith is the agent with other options.
func AgentWith(root string, o AgentOptions) Unit {
	var flags []string
	if o.Metrics != textfile.DefaultFolder {
		flags = []string{"--metrics", unitWord(o.Metrics)}
	}
	if o.Mirror {
		flags = append(flags, "--mirror")
	}
	return Unit{"sealift-agent.service", unit("renews certificates, takes part in upgrades of the cluster", "agent", 2048, root, flags...)}
}

// File is the path of the unit's file.
func (u Unit) File() string { return filepath.Join("/etc/systemd/system", u.Name) }

// Start installs a service, and starts it with every boot and now. output receives what systemctl prints.
func (u Unit) Start(ctx context.Context, output io.Writer) error {
	if err := u.Install(ctx, output); err != nil {
		return err
	}
	return command.Run(ctx, output, "systemctl", "restart", u.Name)
}

// Install installs a service for the next boot, or the next start. A running one continues unchanged.
func (u Unit) Install(ctx context.Context, output io.Writer) error {
	if err := files.Write(u.File(), []byte(u.Text)); err != nil {
		return err
	}
	for _, args := range [][]string{{"daemon-reload"}, {"enable", u.Name}} {
		if err := command.Run(ctx, output, "systemctl", args...); err != nil {
			return err
		}
	}
	return nil
}

// unit has a home and a PATH for the programs that the service starts: kubectl would keep its cache in /.kube, and the PATH of systemd
// can be set in its system.conf. The service and its programs use at most some MiB of memory, so that a fault in one of them does not
// exhaust the node's memory.
func unit(description, command string, memory int, root string, flags ...string) string {
	return fmt.Sprintf(`[Unit]
Description=Sealift: %s
After=network-online.target containerd.service
Wants=network-online.target

[Service]
Environment=HOME=/root
Environment=PATH=%s
ExecStart=%s node %s --root %s
Restart=always
RestartSec=2
MemoryMax=%dM
Environment=GOMEMLIMIT=%dMiB
NoNewPrivileges=yes

[Install]
WantedBy=multi-user.target
`, description, hostpath.Folders, node.Binary, command, strings.Join(append([]string{unitWord(root)}, flags...), " "), memory, memory*3/4)
}

// unitWord quotes text as one word of a command in a unit of systemd, which fills in %h and $HOME otherwise.
func unitWord(text string) string {
	return strings.NewReplacer("%", "%%", "$", "$$").Replace(strconv.Quote(text))
}
