package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/lifecycle"
	"github.com/sealift/sealift/installer/node"
	"github.com/sealift/sealift/internal/atomicfile"
)

// The steps that fit a node into its surroundings. They are planned when there is something to do, and when there once was:
// what an Installer no longer asks for is taken out.
const (
	certificatesStep = "node/certificates"
	proxyStep        = "node/proxy"
)

// surroundings adds those steps, after the networks are known.
func (p *planner) surroundings() {
	if p.certificates() != "" || p.journal.Began(certificatesStep) {
		p.add(lifecycle.Step{ID: certificatesStep, Phase: lifecycle.PreInit, Title: "trust the CAs that the Installer names", Timeout: shortTime,
			Inputs: lifecycle.Digest(p.certificates()), Run: p.trustCertificates})
	}
	if p.proxyAddress() != "" || p.journal.Began(proxyStep) {
		p.add(lifecycle.Step{ID: proxyStep, Phase: lifecycle.PreInit, Title: "tell containerd and kubelet of the proxy", Timeout: shortTime,
			Inputs: lifecycle.Digest(p.proxyAddress(), p.hooks.variables["ADDITIONAL_NO_PROXY_ADDRESSES"], p.networkInputs()), Run: p.setProxy, Restore: p.hooks.restore})
	}
	if len(p.walls()) > 0 || p.journal.Began(node.FirewallStep) {
		p.add(lifecycle.Step{ID: node.FirewallStep, Phase: lifecycle.PreInit, Title: "open the firewall for the cluster", Timeout: shortTime,
			Inputs: lifecycle.Digest(p.wallOptions(), p.networkInputs()), Run: p.openFirewall})
	}
	p.commands()
}

// certificates are those of CAs that this host is to trust, as PEM: of a company's proxy, of a registry or a server of one's own.
func (i *Install) certificates() string {
	text, _ := i.spec.Section("kurl").Options["caCertificates"].(string)
	return text
}

// parseCertificates takes them apart; there may be none.
func (i *Install) parseCertificates() ([][]byte, error) {
	if i.certificates() == "" {
		return nil, nil
	}
	certificates, err := host.ParseCertificates([]byte(i.certificates()))
	if err != nil {
		return nil, fmt.Errorf("the Installer's kurl.caCertificates: %w", err)
	}
	return certificates, nil
}

// checkCertificates refuses what are no certificates, before anything is changed.
func (i *Install) checkCertificates() error {
	_, err := i.parseCertificates()
	return err
}

// trustCertificates puts them into the host's store, or takes out those of an earlier Installer. A containerd that runs reads the
// store again when it is started again.
func (i *Install) trustCertificates(ctx context.Context) (lifecycle.State, error) {
	certificates, err := i.parseCertificates()
	if err != nil {
		return nil, err
	}
	if err := host.Trust(ctx, i.log, certificates); err != nil {
		return nil, err
	}
	return nil, host.Command(ctx, i.log, "systemctl", "try-restart", "containerd")
}

// proxyAddress is by which containerd and the kubelet reach the outside; "" when they need no proxy.
func (i *Install) proxyAddress() string {
	if i.hooks.variables["NO_PROXY"] == "1" {
		return ""
	}
	return i.hooks.variables["PROXY_ADDRESS"]
}

// checkProxy refuses an address that no program would understand, before anything is changed.
func (i *Install) checkProxy() error {
	address := i.proxyAddress()
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsFunc(address, func(r rune) bool { return r < ' ' }) {
		return errors.New("the Installer's kurl.proxyAddress is no address such as http://proxy.example.com:3128")
	}
	return nil
}

// noProxy lists what is reached without the proxy: the node itself, the cluster's networks and names, and what the Installer
// adds (kURL §3.1, step 29).
func (i *Install) noProxy() string {
	values := i.hooks.values()
	list := []string{"localhost", "127.0.0.1", "::1", ".svc", ".cluster.local", values["NODE_NAME"], values["PRIVATE_ADDRESS"], values["PUBLIC_ADDRESS"],
		values["POD_CIDR"], values["SERVICE_CIDR"], hostOf(values["LOAD_BALANCER_ADDRESS"])}
	var unique []string
	for _, one := range append(list, strings.Split(values["ADDITIONAL_NO_PROXY_ADDRESSES"], ",")...) {
		if one = strings.TrimSpace(one); one != "" && !slices.Contains(unique, one) {
			unique = append(unique, one)
		}
	}
	return strings.Join(unique, ",")
}

// hostOf cuts the port off an address, if it has one.
func hostOf(address string) string {
	if at := strings.LastIndexByte(address, ':'); at >= 0 && strings.Count(address, ":") == 1 {
		return address[:at]
	}
	return strings.Trim(address, "[]")
}

// setProxy gives containerd and kubelet their settings in a file for root alone, since the address may have a password.
func (i *Install) setProxy(ctx context.Context) (lifecycle.State, error) {
	address, exceptions := i.proxyAddress(), i.noProxy()
	settings := filepath.Join(i.options.Root, node.ProxySettings)
	var text strings.Builder
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		fmt.Fprintf(&text, "%s=%s\n", name, environmentValue(address))
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		fmt.Fprintf(&text, "%s=%s\n", name, environmentValue(exceptions))
	}
	if err := atomicfile.WriteMode(settings, 0o600, []byte(text.String())); err != nil {
		return nil, err
	}
	for _, unit := range []string{"containerd", "kubelet"} {
		name := filepath.Join("/etc/systemd/system", unit+".service.d", "sealift-proxy.conf")
		if address == "" {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		}
		if err := atomicfile.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return nil, err
		}
		if err := atomicfile.Write(name, []byte("[Service]\nEnvironmentFile=-"+strings.ReplaceAll(settings, "%", "%%")+"\n")); err != nil {
			return nil, err
		}
	}
	state := lifecycle.State{"NO_PROXY_ADDRESSES": exceptions}
	for _, args := range [][]string{{"daemon-reload"}, {"try-restart", "containerd", "kubelet"}} {
		if err := host.Command(ctx, i.log, "systemctl", args...); err != nil && args[0] == "daemon-reload" {
			return nil, err
		}
	}
	return state, i.hooks.restore(ctx, state)
}

// environmentValue writes a value as systemd reads it in an EnvironmentFile, systemd.exec(5).
func environmentValue(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(s) + `"`
}

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
