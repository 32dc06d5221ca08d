# shellcheck shell=bash

kubernetes_pre_init() {
    local src="$DIR/addons/kubernetes/$KUBERNETES_VERSION"
    PAUSE_IMAGE=$(awk '$1 == "image" && $2 == "pause" { print $3 }' "$src/Manifest")
    kubernetes_kernel
    for binary in kubeadm kubectl kubelet; do
        install -m 0755 "$src/assets/$binary" "/usr/local/bin/$binary"
    done
    install -m 0644 "$src/kubelet.service" /etc/systemd/system/kubelet.service
    systemctl daemon-reload
    systemctl enable kubelet
    kubernetes_patches "$src"
}

# kubernetes_kernel: modules and settings that pods need, now and after a restart. In a container the modules belong to
# the machine below, and only what they offer can be asked for.
kubernetes_kernel() {
    printf '%s\n' overlay br_netfilter >/etc/modules-load.d/sealift-kubernetes.conf
    if [ -d "/lib/modules/$(uname -r)" ]; then
        modprobe -a overlay br_netfilter
    fi
    cat >/etc/sysctl.d/99-sealift-kubernetes.conf <<-'SETTINGS'
	net.ipv4.ip_forward = 1
	net.bridge.bridge-nf-call-iptables = 1
	net.bridge.bridge-nf-call-ip6tables = 1
	SETTINGS
    /lib/systemd/systemd-sysctl /etc/sysctl.d/99-sealift-kubernetes.conf
    [ "$(cat /proc/sys/net/ipv4/ip_forward)" = 1 ] || bail "net.ipv4.ip_forward cannot be set; pods would reach nothing"
    [ "$(cat /proc/sys/net/bridge/bridge-nf-call-iptables)" = 1 ] ||
        bail "net.bridge.bridge-nf-call-iptables cannot be set; load the kernel module br_netfilter"
}

# kubernetes_patches DIR: adapts the kubeadm configuration to the host.
kubernetes_patches() {
    local patches="$DIR/kustomize/kubeadm/init-patches"
    mkdir -p "$patches"
    rm -f "$patches"/kubernetes-*.yaml
    if [ "$SEALIFT_CGROUP_VERSION" = 1 ]; then
        cp "$1/kubeadm/patches/kubernetes-cgroup-v1.yaml" "$patches/"
    fi
    # kube-proxy would raise the limit of tracked connections, which only the machine itself may do
    if [ ! -w /proc/sys/net/netfilter/nf_conntrack_max ]; then
        cp "$1/kubeadm/patches/kubernetes-conntrack.yaml" "$patches/"
    fi
}
