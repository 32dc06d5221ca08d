package installer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/balancer"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/lifecycle"
	"github.com/sealift/sealift/installer/runtime"
	"github.com/sealift/sealift/installer/share"
	"github.com/sealift/sealift/installer/token"
	"github.com/sealift/sealift/internal/atomicfile"
)

// The services of a node are sealift itself: one reaches the API for it, one gives files to hosts that join.

// balancer adds the step for the API on this host, unless the cluster has a load balancer.
func (p *planner) balancer() {
	if p.hooks.variables["KUBERNETES_API_ENDPOINT"] != localEndpoint {
		return
	}
	p.add(lifecycle.Step{ID: balancerStep, Phase: lifecycle.PreInit, Title: "reach the API on this host at " + localEndpoint, Timeout: shortTime,
		Inputs: lifecycle.Digest(balancerUnit(p.options.Root)), Run: p.startBalancer})
}

func (i *Install) startBalancer(ctx context.Context) (lifecycle.State, error) {
	servers := []string{netJoin(i.hooks.variables["PRIVATE_ADDRESS"], 6443)}
	if i.Joins() {
		servers = i.options.Join.Cluster.APIServers
	}
	if err := balancer.WriteList(apiServersFile(i.options.Root), servers); err != nil {
		return nil, err
	}
	return nil, i.startUnit(ctx, "sealift-api.service", balancerUnit(i.options.Root))
}

// apiServersName is the file in the state folder with the addresses that the balancer knows.
const apiServersName = "api-servers"

func apiServersFile(root string) string { return filepath.Join(StateDir(root), apiServersName) }

// Balance gives this host an address of the API that works while any control plane does, until ctx ends.
func Balance(ctx context.Context, root string, log *slog.Logger) error {
	file := apiServersFile(root)
	known, err := balancer.ReadList(file)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", localEndpoint)
	if err != nil {
		return err
	}
	b := &balancer.Balancer{Log: log}
	b.Set(ctx, known)
	go b.Follow(ctx, file, func(ctx context.Context) ([]string, error) {
		client, err := clientOf(cluster.KubeletKubeconfig) // made anew: it comes late, and its certificate changes
		if err != nil {
			return nil, err
		}
		return balancer.Discover(ctx, client)
	})
	return b.Serve(ctx, l)
}

// effectiveInstaller is the Installer as it was installed: that of the bundle with what was asked for on the command line.
const effectiveInstaller = "installer.yaml"

// share adds the step by which hosts that join can take their files from this one.
func (p *planner) share() {
	p.add(lifecycle.Step{ID: "node/share", Phase: lifecycle.Install, Title: "serve hosts that join", Timeout: shortTime,
		Inputs: lifecycle.Digest(p.archive.Digest, shareUnit(p.options.Root), p.spec.AddOns), Run: p.startShare, Beside: true})
}

func (i *Install) startShare(ctx context.Context) (lifecycle.State, error) {
	index, sig := i.archive.Raw()
	text, err := i.spec.Canonical()
	if err != nil {
		return nil, err
	}
	for name, data := range map[string][]byte{"index.json": index, "index.json.sig": sig, filepath.Join("state", effectiveInstaller): text} {
		if len(data) == 0 {
			continue
		}
		// an Installer may have secrets
		if err := atomicfile.WriteMode(filepath.Join(i.options.Root, name), 0o600, data); err != nil {
			return nil, err
		}
	}
	if err := i.extractRoot(ctx); err != nil {
		return nil, err
	}
	return nil, i.startUnit(ctx, "sealift-node.service", shareUnit(i.options.Root))
}

// extractRoot brings what lies at the root of the bundle and goes with its index.
func (i *Install) extractRoot(ctx context.Context) error {
	root, err := os.OpenRoot(i.options.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	return errors.Join(i.archive.Extract(ctx, root, func(e bundle.Entry) bool { return e.Path == bundle.InstallerName }), i.keepProgram(ctx))
}

// Share serves hosts that join, until ctx ends.
func Share(ctx context.Context, root string, log *slog.Logger) error {
	admin, err := AsAdministrator()
	if err != nil {
		return err
	}
	authority, err := share.ReadAuthority(cluster.PKI)
	if err != nil {
		return err
	}
	script, err := admin.script()
	if err != nil {
		return err
	}
	r, err := runtime.Connect(ctx, runtime.Socket)
	if err != nil {
		return err
	}
	defer r.Close()
	s := &share.Server{
		Root: root, Binary: installedBinary, Script: script.Text, Log: log,
		Blobs: func(ctx context.Context, sha256 string) (share.Blob, error) { return r.Blob(ctx, sha256) },
		Authorize: func(ctx context.Context, whole string) error {
			err := token.Verify(ctx, admin.Client, whole)
			if errors.Is(err, token.ErrUnknown) {
				return share.ErrToken
			}
			return err
		},
		ControlPlane: func(ctx context.Context, key string) error { return holdsCertificateKey(ctx, admin.Client, key) },
		Cluster: func(ctx context.Context, controlPlane bool) (share.Cluster, error) {
			c, err := admin.Cluster(ctx)
			if err != nil {
				return c, err
			}
			text, err := os.ReadFile(filepath.Join(StateDir(root), effectiveInstaller))
			if c.Installer = string(text); err == nil && !controlPlane {
				c.Installer, err = workerInstaller(root, text)
			}
			return c, err
		},
	}
	hostname, err := os.Hostname()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", share.Address(admin.Address))
	if err != nil {
		return err
	}
	return share.Serve(ctx, share.Mixed(l, authority.TLS(admin.Address, hostname)), s.Handler())
}

// startUnit installs a service of sealift itself.
func (i *Install) startUnit(ctx context.Context, name, text string) error {
	if err := atomicfile.Write(filepath.Join("/etc/systemd/system", name), []byte(text)); err != nil {
		return err
	}
	for _, args := range [][]string{{"daemon-reload"}, {"enable", name}, {"restart", name}} {
		if err := host.Command(ctx, i.log, "systemctl", args...); err != nil {
			return err
		}
	}
	return nil
}

func balancerUnit(root string) string {
	return unit("the Kubernetes API of the cluster, on this node", "balance", root)
}

func shareUnit(root string) string {
	return unit("files for hosts that join the cluster", "share", root)
}

func unit(description, command, root string) string {
	return fmt.Sprintf(`[Unit]
Description=Sealift: %s
After=network-online.target containerd.service
Wants=network-online.target

[Service]
ExecStart=%s node %s --root %s
Restart=always
RestartSec=2
NoNewPrivileges=yes

[Install]
WantedBy=multi-user.target
`, description, installedBinary, command, unitWord(root))
}

// unitWord quotes text as one word of a command in a unit of systemd, which fills in %h and $HOME otherwise.
func unitWord(text string) string {
	return strings.NewReplacer("%", "%%", "$", "$$").Replace(strconv.Quote(text))
}
