package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/podnetwork"
)

// cniFolder is where containerd looks for the network of pods.
const cniFolder = "etc/cni/net.d"

// podNetwork looks for foreign network configurations. containerd uses the first file by name, of any of the three kinds; until the
// cluster's add-on has written its own, it uses any. Then the node is Ready, and the first pods have addresses of another network. A
// file that it cannot read stops it from looking at later ones.
func (p probes) podNetwork(_ context.Context, r *Reporter) {
	if p.needs.Resumed || p.needs.Role == NoNode {
		r.Passf("not checked")
		return
	}
	entries, err := fs.ReadDir(p.host.Root, cniFolder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.unknown(err)
		return
	}
	var found []string
	for _, entry := range entries {
		name := entry.Name()
		kind := slices.Contains([]string{".conf", ".conflist", ".json"}, path.Ext(name))
		own := slices.Contains(p.needs.AddOns, strings.TrimLeft(strings.TrimSuffix(name, path.Ext(name)), "0123456789-")) // which the add-on writes again
		if kind && !own && !entry.IsDir() {
			found = append(found, "/"+path.Join(cniFolder, name))
		}
	}
	if len(found) > 0 {
		r.Failf("if nothing on this host needs them, move them away: mv "+strings.Join(found, " ")+" /etc/cni/",
			"%s: pods would get the network of another program instead of that of the cluster", strings.Join(found, ", "))
		return
	}
	r.Passf("no other network configuration in /%s", cniFolder)
}

// maxChains is how many chains a message names.
const maxChains = 5

// leftChains lists the chains of pod networks whose rules drop or redirect packets of another one. kube-proxy replaces its own.
func (p probes) leftChains(ctx context.Context) (found []string) {
	if p.host.Chains == nil {
		return nil
	}
	for _, chain := range p.host.Chains(ctx) {
		left := slices.ContainsFunc(podnetwork.Chains(), func(prefix string) bool { return strings.HasPrefix(chain, prefix) })
		if left && !slices.Contains(found, chain) {
			found = append(found, chain)
		}
	}
	if more := len(found) - maxChains; more > 0 {
		found = append(found[:maxChains], fmt.Sprintf("and %d more", more))
	}
	return found
}

// leftInterfaces lists interfaces that pod networks and kube-proxy of an earlier cluster made.
func (p probes) leftInterfaces() (found []string, err error) {
	entries, err := fs.ReadDir(p.host.Root, "sys/class/net")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		if podnetwork.IsLink(entry.Name()) {
			found = append(found, entry.Name())
		}
	}
	return found, nil
}
