//go:build grid

package airgap_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// kurlHost makes a host what kURL's scripts make it before kubeadm runs, from the files of the lab: programs and units where host
// packages have them, kubeadm's drop-in for the kubelet, containerd with kURL's drop-in, images, and kURL's folders.
var kurlHost = `set -euo pipefail
mkdir -p /var/lib/kurl /etc/kurl /opt/replicated /var/log/kurl /opt/cni/bin /etc/containerd/conf.d
tar xzf /media/usb/cluster.tar.gz -C /var/lib/kurl
cd /var/lib/kurl && rm -rf index.json* bin
head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >/etc/kurl/uuid
k=addons/kubernetes/` + previous + ` c=addons/containerd/` + currentRuntime + `
DEBIAN_FRONTEND=noninteractive dpkg -i addons/*/*/packages/debian-12/*.deb >/var/log/kurl/dpkg.log 2>&1
grep -q '^nameserver' /etc/resolv.conf || echo 'nameserver 192.0.2.1' >>/etc/resolv.conf
printf 'net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\n' >/etc/sysctl.d/99-kurl.conf
/lib/systemd/systemd-sysctl /etc/sysctl.d/99-kurl.conf
ip route replace 10.96.0.0/22 dev host0
tar xzf $c/assets/containerd-amd64.tar.gz --no-same-owner -C /usr
install -m 0755 $c/assets/runc-amd64 /usr/bin/runc
sed 's,/usr/local/bin,/usr/bin,' $c/containerd.service >/usr/lib/systemd/system/containerd.service
driver=false; [ "$(stat -fc %T /sys/fs/cgroup)" != cgroup2fs ] || driver=true
printf 'version = 3\nimports = ["/etc/containerd/conf.d/*.toml"]\n' >/etc/containerd/config.toml
cat >/etc/containerd/conf.d/50-replicated.toml <<EOF
version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '$(awk '$1 == "image" && $2 == "pause" { print $3 }' $k/Manifest)'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = $driver
EOF
tar xzf $k/assets/cni-plugins-amd64.tgz --no-same-owner -C /opt/cni/bin
for name in kubeadm kubelet kubectl; do install -m 0755 $k/assets/$name-amd64 /usr/bin/$name; done
cat >/usr/lib/systemd/system/kubelet.service <<'EOF'
[Unit]
Description=kubelet: The Kubernetes Node Agent
After=network-online.target
[Service]
ExecStart=/usr/bin/kubelet
Restart=always
RestartSec=5
[Install]
WantedBy=multi-user.target
EOF
mkdir -p /etc/systemd/system/kubelet.service.d
cat >/etc/systemd/system/kubelet.service.d/10-kubeadm.conf <<'EOF'
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
EOF
echo "KUBELET_EXTRA_ARGS=--node-ip=$(ip -4 -oneline address show dev host0 | awk '{ sub("/.*", "", $4); print $4; exit }')" >/etc/default/kubelet
systemctl daemon-reload
systemctl enable --quiet --now containerd
systemctl enable --quiet kubelet
for images in addons/*/*/images; do tar -C "$images" -cf - . | ctr --namespace k8s.io images import - >/dev/null; done
`

// kurlInit makes the first control plane, and leaves in the cluster what kURL's scripts leave (kURL §3.1, §3.7).
var kurlInit = `set -euo pipefail
cd /var/lib/kurl
address=$(ip -4 -oneline address show dev host0 | awk '{ sub("/.*", "", $4); print $4; exit }')
driver=cgroupfs fail='failCgroupV1: false'
[ "$(stat -fc %T /sys/fs/cgroup)" != cgroup2fs ] || driver=systemd fail=
cat >/opt/replicated/kubeadm.conf <<EOF
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: $address}
nodeRegistration:
  criSocket: unix:///run/containerd/containerd.sock
  taints: []
  kubeletExtraArgs: [{name: node-labels, value: kurl.sh/cluster=true}]
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v` + previous + `
controlPlaneEndpoint: $address:6443
networking: {podSubnet: 10.32.0.0/20, serviceSubnet: 10.96.0.0/22}
apiServer:
  extraArgs: [{name: service-node-port-range, value: 80-60000}, {name: profiling, value: "false"}]
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack: {maxPerCore: 0, min: 0}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: $driver
failSwapOn: false
$fail
EOF
kubeadm init --config /opt/replicated/kubeadm.conf --ignore-preflight-errors=all >/var/log/kurl/init.log 2>&1 || { tail -50 /var/log/kurl/init.log; exit 1; }
export KUBECONFIG=/etc/kubernetes/admin.conf
cp -r addons/flannel/` + currentNetwork + `/yaml /tmp/flannel
sed -e 's,${POD_CIDR},10.32.0.0/20,' -e "s,\${FLANNEL_API_HOST},$address," -e 's,${FLANNEL_API_PORT},6443,' /tmp/flannel/network.tmpl.yaml >/tmp/flannel/network.yaml
kubectl apply -k /tmp/flannel
rm -r /tmp/flannel
kubectl label node "$(hostname)" node-role.kubernetes.io/master=
kubectl create namespace kurl
kubectl apply -f - <<EOF
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: installers.cluster.kurl.sh}
spec:
  group: cluster.kurl.sh
  scope: Namespaced
  names: {kind: Installer, listKind: InstallerList, plural: installers, singular: installer}
  versions:
  - {name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
EOF
kubectl wait --for=condition=Established crd/installers.cluster.kurl.sh --timeout=60s
kubectl apply -f - <<EOF
apiVersion: cluster.kurl.sh/v1beta1
kind: Installer
metadata: {name: 1a2b3c4, labels: {velero.io/exclude-from-backup: "true"}}
spec:
  kubernetes: {version: ` + previous + `}
  containerd: {version: ` + currentRuntime + `}
  flannel: {version: ` + currentNetwork + `}
EOF
kubectl --namespace kurl create configmap kurl-current-config --from-literal=kurl-version=v2026.08.07-0 \
  --from-literal=addons-flannel="$(kubectl get installer 1a2b3c4 -o jsonpath="{.spec.flannel}" | base64 -w 0)"
`

// kurlConfig ends an install of kURL.
const kurlConfig = kubectl + `--namespace kube-system create configmap kurl-config --from-literal=installer_id=1a2b3c4 --from-literal=airgap=1 --from-literal=ha= \
  --from-literal=kubernetes_api_address="$(` + kubectl + `get configmap -n kube-system kubeadm-config -o jsonpath={.data.ClusterConfiguration} | sed -n 's/controlPlaneEndpoint: //p')" \
  --from-literal=kurl_install_directory=/var/lib/kurl --from-literal=pod_cidr=10.32.0.0/20 --from-literal=service_cidr=10.96.0.0/22`

// What adopting a node must not change: the pods of the cluster with how often they restarted, and what runs them.
const (
	workload = kubectl + `get pods -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name} {.metadata.uid} {range .status.containerStatuses[*]}{.restartCount} {.containerID} {end}{"\n"}{end}' | sort`
	daemons  = "systemctl show --property=Id,MainPID,ExecMainStartTimestamp kubelet containerd"
)

// TestKurlClusterIsAdopted has a control plane and a worker in kURL's shape. They are adopted, with one kill on the way, and no
// pod restarts; then they are upgraded by one minor version, a host joins, and the worker is reset.
func TestKurlClusterIsAdopted(t *testing.T) {
	older, newer := build(t, previous, "debian-12"), build(t, current, "debian-12")
	shell(t, newer.usb, "tar xzf cluster.tar.gz --occurrence=1 upgrade.sh && tar xzf cluster.tar.gz bin/sealift")
	usb := []string{older.usb, newer.usb}
	first, worker := node{lab.Host(t, host.Spec{USB: usb}), t}, node{lab.Host(t, host.Spec{USB: usb}), t}
	for _, n := range []node{first, worker} {
		n.must(kurlHost)
		n.refuses("ip route get 1.1.1.1", 2, "unreachable")
	}
	const adopt = "/media/usb2/bin/sealift adopt"
	first.refuses(adopt+" --yes 2>&1", 3, "this host is not a node of a cluster")
	first.must(kurlInit)
	worker.must(strings.TrimSpace(first.must("kubeadm --kubeconfig /etc/kubernetes/admin.conf token create --print-join-command 2>/dev/null")) + " --ignore-preflight-errors=all")
	first.must(kubectl + "label node " + worker.Name() + " kurl.sh/cluster=true && " + kubectl + "wait --for=condition=Ready nodes --all --timeout=300s")
	first.refuses(adopt+" --yes 2>&1", 3, "run kURL's install.sh again until it ends")
	first.must(kurlConfig)
	first.apply(asked)
	first.must(kubectl + "rollout status deployment/asked --timeout=180s && " + kubectl + "--namespace kube-system rollout status deployment/coredns --timeout=180s")
	first.must("! command -v sealift")

	pods, runs := first.must(workload), []string{first.must(daemons), worker.must(daemons)}
	for _, n := range []node{first, worker} {
		before := n.must(versionsOf)
		t.Log(n.must(adopt + " --plan"))
		if after := n.must(versionsOf); after != before {
			t.Errorf("a plan changed the host:\nbefore\n%s\nafter\n%s", before, after)
		}
	}
	first.interrupt(interruption{command: "exec " + adopt + " --yes", step: "node/share", record: "started", signal: "KILL"})
	for at, n := range []node{first, worker} {
		out := n.must(adopt + " --yes 2>&1")
		t.Log(out)
		if !strings.Contains(out, "this node is adopted") {
			t.Errorf("the adoption ended without saying so:\n%s", out)
		}
		if out := n.must("sealift adopt --yes 2>&1"); !strings.Contains(out, "nothing to do") {
			t.Errorf("once more:\n%s", out)
		}
		t.Log(n.must("sealift status"))
		if after := n.must(daemons); after != runs[at] {
			t.Errorf("the kubelet or containerd restarted:\nbefore\n%s\nafter\n%s", runs[at], after)
		}
	}
	if after := first.must(workload); after != pods {
		t.Errorf("pods changed:\nbefore\n%s\nafter\n%s", pods, after)
	}
	third := node{lab.Host(t, host.Spec{}), t}
	third.refuses(first.joinCommand("")+" 2>&1", 1, "has no bundle to give out yet")

	t.Log(first.must(upgrade + " yes 2>&1"))
	first.runs("v"+current, 2)
	first.pulled()
	first.must("sealift status")
	third.must(first.joinCommand(""))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	first.runs("v"+current, 3)

	out := worker.must("cp /usr/local/bin/sealift /var/tmp/sealift && /var/tmp/sealift reset --yes 2>&1")
	t.Log(out)
	if !strings.Contains(out, "what kURL installed") || !strings.Contains(out, "this host is reset") {
		t.Errorf("reset says:\n%s", out)
	}
	worker.must("systemctl is-active containerd && ! systemctl is-active kubelet && ! systemctl is-enabled kubelet && for gone in /etc/kubernetes /var/lib/kubelet /var/lib/sealift /usr/local/bin/sealift /usr/local/bin/kubelet; do test ! -e $gone || { echo $gone is still there; exit 1; }; done; test -x /usr/bin/kubelet && test -d /var/lib/kurl/addons && ! ip link show cni0")
	first.must("sealift node remove --force --yes " + worker.Name())
	first.runs("v"+current, 2)
}

// versionsOf are the files that a plan must not change on a host.
const versionsOf = "find /etc /usr/local /var/lib/kurl /opt -xdev -type f -printf '%p %s %T@\\n' 2>/dev/null | sort; ls -d /var/lib/sealift /var/log/sealift 2>&1 || :"
