package install

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

// checkProxy refuses an address that no program would understand, before anything is changed.
func (j *job) checkProxy() error {
	address := j.settings.proxy.address
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsFunc(address, func(r rune) bool { return r < ' ' }) {
		return unmetf("write it with http:// or https://", "the Installer's kurl.proxyAddress is not an address such as http://proxy.example.com:3128")
	}
	return nil
}

// noProxy lists what is reached without the proxy: the node itself, the cluster's networks and names, and the Installer's
// additions (kURL §3.1, step 29).
func (i *Install) noProxy() string {
	list := []string{"localhost", "127.0.0.1", "::1", ".svc", ".cluster.local", i.facts.Hostname, i.settings.address, i.settings.publicAddress,
		i.settings.address6}
	list = append(append(list, i.hooks.networks()...), i.settings.loadBalancerHost())
	var unique []string
	for _, one := range append(list, strings.Split(i.settings.proxy.listed(), ",")...) {
		if one = strings.TrimSpace(one); one != "" && !slices.Contains(unique, one) {
			unique = append(unique, one)
		}
	}
	return strings.Join(unique, ",")
}

// setProxy writes the settings of containerd and kubelet to a file that only root can read, since the address may have a password.
func (i *Install) setProxy(ctx context.Context) (lifecycle.State, error) {
	address, exceptions := i.settings.proxy.address, i.noProxy()
	file := filepath.Join(i.options.Root, node.ProxySettings)
	var text strings.Builder
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		fmt.Fprintf(&text, "%s=%s\n", name, environmentValue(address))
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		fmt.Fprintf(&text, "%s=%s\n", name, environmentValue(exceptions))
	}
	if err := files.WriteMode(file, 0o600, []byte(text.String())); err != nil {
		return nil, err
	}
	for _, unit := range []string{"containerd", "kubelet"} {
		name := filepath.Join("/etc/systemd/system", unit+".service.d", "sealift-proxy.conf")
		if address == "" {
			if err := files.Remove(name); err != nil {
				return nil, err
			}
			continue
		}
		if err := files.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return nil, err
		}
		if err := files.Write(name, []byte("[Service]\nEnvironmentFile=-"+strings.ReplaceAll(file, "%", "%%")+"\n")); err != nil {
			return nil, err
		}
	}
	state := lifecycle.State{"NO_PROXY_ADDRESSES": exceptions}
	for _, args := range [][]string{{"daemon-reload"}, {"try-restart", "containerd", "kubelet"}} {
		if err := command.Run(ctx, i.Log, "systemctl", args...); err != nil && args[0] == "daemon-reload" {
			return nil, err
		}
	}
	return state, i.hooks.restore(ctx, state)
}

// environmentValue writes a value as systemd reads it in an EnvironmentFile, systemd.exec(5).
func environmentValue(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(s) + `"`
}
