//go:build grid

package airgap_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/mirror"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// flannelForms are the requests of the pre-init hooks of kURL's flannel to the host, by the first version with that form. A version
// without text is kURL's own. All of them copy their patch of kubeadm and set POD_CIDR from an option that may be absent.
var flannelForms = []struct{ version, ask string }{
	{"0.20.0", `! ls /etc/cni/net.d/*weave* >/dev/null 2>&1 || bail "weave is there"
    ` + flannelAsksAPI},
	{"0.24.2", `[ -z "${DOCKER_VERSION-}" ] || bail "docker is there"
    local own way
    own=$("$BIN_KURL" netutil iface-from-ip "$PRIVATE_ADDRESS")
    way=$("$BIN_KURL" netutil default-gateway-iface)
    if [ -n "$own" ] && [ "$own" != "$way" ]; then FLANNEL_IFACE=$own; fi
    ` + flannelAsksAPI + `
    if kubectl get configmap --namespace kurl migration-from-weave >/dev/null 2>&1; then bail "weave was there"; fi`},
	{"0.25.5", `if commandExists kubectl; then
        EXISTING_POD_CIDR=$(awk -F= '/--cluster-cidr/ { print $2 }' /etc/kubernetes/manifests/kube-controller-manager.yaml 2>/dev/null)
    fi
    if kubectl get configmap --namespace kurl migration-from-weave >/dev/null 2>&1; then bail "weave was there"; fi`},
	{"0.28.7", ""},
}

const flannelAsksAPI = `if commandExists kubectl; then
        EXISTING_POD_CIDR=$(kubectl --namespace kube-system get configmap kubeadm-config -o yaml 2>/dev/null | grep podSubnet | awk '{ print $NF }')
    fi`

// flannelForm makes an add-on that is kURL's newest flannel with another pre-init hook.
func flannelForm(t *testing.T, dir, version, ask string) string {
	t.Helper()
	newest := filepath.Join(upstreamcases.KurlAddOns(t), "addons/flannel/0.28.7")
	if ask == "" {
		return newest
	}
	to := filepath.Join(dir, "flannel", version)
	shell(t, dir, "mkdir -p flannel && cp -r "+shellword.Quote(newest)+" "+shellword.Quote(to)+" && chmod -R u+w "+shellword.Quote(to)+" && cat >>"+shellword.Quote(to)+"/install.sh <<'END_OF_HOOK'\n"+`
flannel_pre_init() {
    local src=$DIR/addons/flannel/$FLANNEL_VERSION program
    for program in kubeadm kubelet kubectl; do
        [ ! -e "/usr/local/bin/$program" ] || bail "$program is there before the pre-init hooks have run"
    done
    POD_CIDR=$FLANNEL_POD_CIDR POD_CIDR_RANGE=$FLANNEL_POD_CIDR_RANGE
    cp "$src/kubeadm.yaml" "$DIR/kustomize/kubeadm/init-patches/flannel.yaml"
    `+ask+`
}
END_OF_HOOK`)
	return to
}

// TestEveryKurlFlannelMakesCluster installs a cluster with each form of kURL's pre-init hooks of flannel. The host with the second form
// already has its own kubectl, without a cluster. The first form finds no interface on a host without a default route.
func TestEveryKurlFlannelMakesCluster(t *testing.T) {
	short.Skip(t, "a host of the lab")
	var r delivery
	r = deliveries.once(t, "kurl-flannel", func(made delivery) {
		r = made
		own := filepath.Join(r.dir(), "addons")
		if err := os.MkdirAll(own, 0o755); err != nil {
			t.Fatal(err)
		}
		args := []string{"build", "--out", r.packages, "--target", "debian-12", "--config", r.config, "--cache", r.cache, "addons/containerd/" + currentRuntime, "addons/kubernetes/" + current}
		for _, form := range flannelForms {
			args = append(args, flannelForm(t, own, form.version, form.ask))
		}
		lab := mirror.Options{Images: append(upstream.KurlImages(), upstream.Images("v"+current)...), Downloads: append(upstream.KurlDownloads(), upstream.Downloads("v"+current)...)}
		r.mirrored(t, lab, func() { r.run(t, args...) })
	})
	for _, form := range flannelForms {
		t.Run(form.version, func(t *testing.T) {
			one := r
			one.usb = filepath.Join(r.dir(), "usb-"+form.version)
			if err := os.MkdirAll(one.usb, 0o755); err != nil {
				t.Fatal(err)
			}
			one.bundle(t, fmt.Sprintf("apiVersion: cluster.kurl.sh/v1beta1\nkind: Installer\nmetadata: {name: flannel}\nspec:\n"+
				"  containerd: {version: "+currentRuntime+"}\n  kubernetes: {version: "+current+"}\n  flannel: {version: %s}\n", form.version))
			n := node{lab.Host(t, host.Spec{USB: []string{one.usb}, Exit: true}), t}
			if form.version == "0.24.2" {
				n.must("printf '#!/bin/sh\\necho no cluster >&2\\nexit 1\\n' >/usr/bin/kubectl && chmod 755 /usr/bin/kubectl")
			}
			if out := n.must(install); !strings.Contains(out, "done: ") {
				t.Errorf("the install ended without saying so:\n%s", out)
			}
			n.must("export PATH=/usr/local/bin:$PATH; " + kubectl + "wait --for=condition=Ready nodes --all --timeout=300s && " +
				kubectl + "--namespace kube-flannel rollout status daemonset/kube-flannel-ds --timeout=300s")
		})
	}
}
