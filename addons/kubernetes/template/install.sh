# shellcheck shell=bash

kubernetes_pre_init() {
    local src="$DIR/addons/kubernetes/$KUBERNETES_VERSION"
    # containerd's hook reads it
    PAUSE_IMAGE=$(awk '$1 == "image" && $2 == "pause" { print $3 }' "$src/Manifest")
    kubernetes_kernel
}

# kubernetes_host: brings what a node runs. No pre-init hook finds it on a fresh host, as in kURL: some ask for kubectl to see whether
# there is a cluster. The networks of the cluster are final here.
kubernetes_host() {
    local src="$DIR/addons/kubernetes/$KUBERNETES_VERSION" binary
    for binary in kubeadm kubectl kubelet; do
        sealift_place 0755 "$src/assets/$binary-$SEALIFT_ARCH" "/usr/local/bin/$binary"
    done
    mkdir -p /opt/cni/bin /etc/cni/net.d
    sealift_unpack "$src/assets/cni-plugins-$SEALIFT_ARCH.tgz" /opt/cni/bin
    kubernetes_kubelet_unit "$src"
    kubernetes_audit "$src"
    kubernetes_service_route "$src"
    systemctl daemon-reload
    systemctl enable kubelet
    kubernetes_patches "$src"
}

# kubernetes_kubelet_unit DIR: the unit of the kubelet. A host package of Kubernetes brings a drop-in that starts a kubelet of its own,
# whatever the unit says; a later drop-in starts the kubelet of the unit.
kubernetes_kubelet_unit() {
    local folder=/etc/systemd/system/kubelet.service.d
    sealift_place 0600 "$1/kubelet.service" /etc/systemd/system/kubelet.service
    rm -f "$folder/99-sealift.conf"
    if grep -qs '^ExecStart=' "$folder"/*.conf /lib/systemd/system/kubelet.service.d/*.conf /usr/lib/systemd/system/kubelet.service.d/*.conf; then
        mkdir -p "$folder"
        {
            printf '[Service]\nExecStart=\n'
            sed -n '/^ExecStart=/,/[^\\]$/p' "$1/kubelet.service"
        } >"$folder/99-sealift.conf"
    fi
}

# kubernetes_audit DIR: the API server does not start without the files that its manifest names. It reads admission.yaml in a cluster
# whose Installer said hardening: strict when it was made.
kubernetes_audit() {
    [ -n "$MASTER" ] || return 0
    mkdir -p /etc/kubernetes
    sealift_place 0600 "$1/audit.yaml" /etc/kubernetes/audit.yaml
    sealift_place 0600 "$1/admission.yaml" /etc/kubernetes/admission.yaml
    install -d -m 0700 /var/log/apiserver
}

# kubernetes_service_route DIR: the kernel looks for a route before kube-proxy's rules see a packet, so that on a host
# without a default route nothing in the host's network could reach a Service.
kubernetes_service_route() {
    local interface network networks=()
    [ -n "$(ip "-$(kubernetes_family)" route show default)" ] || networks+=("$SERVICE_CIDR")
    [ -z "${SERVICE_CIDR6:-}" ] || [ -n "$(ip -6 route show default)" ] || networks+=("$SERVICE_CIDR6")
    [ ${#networks[@]} -gt 0 ] || return 0
    interface=$(kubernetes_interface)
    [ -n "$interface" ] || bail "no interface has the address $PRIVATE_ADDRESS"
    KUBERNETES_SERVICE_ROUTES=$(for network in "${networks[@]}"; do echo "ExecStart=/sbin/ip route replace $network dev $interface"; done)
    render_yaml_file_2 "$1/sealift-service-route.tmpl.service" >/etc/systemd/system/sealift-service-route.service
    systemctl daemon-reload
    systemctl enable sealift-service-route
    restart_systemd_and_wait sealift-service-route
}

# kubernetes_family: 6 in a cluster with IPv6 alone, else 4.
kubernetes_family() { if [ -n "$IPV6_ONLY" ]; then echo 6; else echo 4; fi; }

# kubernetes_interface: the one with the address of the node.
kubernetes_interface() { ip -oneline address show to "$PRIVATE_ADDRESS" | awk '{ print $2; exit }'; }

# kubernetes_kernel: modules and settings that pods need, now and after a restart. In a container the modules belong to
# the machine below, and only what they offer can be asked for.
kubernetes_kernel() {
    mkdir -p /etc/modules-load.d /etc/sysctl.d
    printf '%s\n' overlay br_netfilter >/etc/modules-load.d/sealift-kubernetes.conf
    if [ -d "/lib/modules/$(uname -r)" ]; then
        modprobe -a overlay br_netfilter
    fi
    rm -f /etc/sysctl.d/99-sealift-kubernetes.conf # of an earlier sealift: /etc/sysctl.d/99-sysctl.conf won
    cat >/etc/sysctl.d/zz-sealift-kubernetes.conf <<-'SETTINGS'
	net.ipv4.ip_forward = 1
	net.ipv4.conf.default.forwarding = 1
	net.bridge.bridge-nf-call-iptables = 1
	net.bridge.bridge-nf-call-ip6tables = 1
	# what the kubelet sets when it starts; with hardening: strict it wants to find them, and fails if it does not
	-vm.overcommit_memory = 1
	-vm.panic_on_oom = 0
	-kernel.panic = 10
	-kernel.panic_on_oops = 1
	-kernel.keys.root_maxkeys = 1000000
	-kernel.keys.root_maxbytes = 25000000
	SETTINGS
    if [ -n "$IPV6_ONLY${POD_CIDR6:-}" ]; then
        # a host that forwards no longer listens to routers that announce its address and its routes, unless told to
        cat >>/etc/sysctl.d/zz-sealift-kubernetes.conf <<-SETTINGS
		net.ipv6.conf.all.forwarding = 1
		-net/ipv6/conf/$(kubernetes_interface)/accept_ra = 2
		SETTINGS
    fi
    /lib/systemd/systemd-sysctl /etc/sysctl.d/zz-sealift-kubernetes.conf
    [ "$(cat /proc/sys/net/ipv4/ip_forward)" = 1 ] || bail "net.ipv4.ip_forward cannot be set; pods would reach nothing"
    [ -z "$IPV6_ONLY${POD_CIDR6:-}" ] || [ "$(cat /proc/sys/net/ipv6/conf/all/forwarding)" = 1 ] ||
        bail "net.ipv6.conf.all.forwarding cannot be set; pods would reach nothing"
    [ "$(cat /proc/sys/net/bridge/bridge-nf-call-iptables)" = 1 ] ||
        bail "net.bridge.bridge-nf-call-iptables cannot be set; load the kernel module br_netfilter"
}

# kubernetes: lets every node ask which API servers there are.
kubernetes() {
    local dir
    dir=$(sealift_add_on_dir kubernetes)
    cp "$DIR/addons/kubernetes/$KUBERNETES_VERSION"/yaml/* "$dir/"
    sealift_apply kubernetes "$dir"
}

# kubernetes_patches DIR: adapts the kubeadm configuration to the host, of a first node and of one that joins.
kubernetes_patches() {
    local patches="$DIR/kustomize/kubeadm/init-patches" join="$DIR/kustomize/kubeadm/join-patches"
    # shellcheck disable=SC2153 # POD_CIDR is no misspelling of POD_CIDR6
    KUBERNETES_NODE_IP=$PRIVATE_ADDRESS KUBERNETES_POD_SUBNET=$POD_CIDR KUBERNETES_SERVICE_SUBNET=$SERVICE_CIDR
    if [ -n "${POD_CIDR6:-}" ]; then
        KUBERNETES_NODE_IP+=,$PRIVATE_ADDRESS6 KUBERNETES_POD_SUBNET+=,$POD_CIDR6 KUBERNETES_SERVICE_SUBNET+=,$SERVICE_CIDR6
    fi
    mkdir -p "$patches" "$join"
    rm -f "$patches"/kubernetes-*.yaml "$join"/kubernetes-*.yaml
    if [ "$SEALIFT_CGROUP_VERSION" = 1 ]; then
        cp "$1/kubeadm/patches/kubernetes-cgroup-v1.yaml" "$patches/"
        cp "$1/kubeadm/patches/kubernetes-join-cgroup-v1.yaml" "$join/"
    fi
    if [ -n "$MASTER" ]; then
        cp "$1/kubeadm/patches/kubernetes-control-plane.yaml" "$join/"
    fi
    # the cluster's configuration names a file of its first node, which this one may not have
    KUBERNETES_RESOLV_CONF=/etc/resolv.conf
    if systemctl --quiet is-active systemd-resolved; then
        KUBERNETES_RESOLV_CONF=/run/systemd/resolve/resolv.conf
    fi
    cp "$1/kubeadm/patches/kubernetes-resolv-conf.yaml" "$join/"
    # CoreDNS does not start without a server to forward to, and one at a loopback address would be itself. These addresses (RFC 5737, RFC 3849)
    # belong to nobody
    if [ -n "$NAMESERVER" ] || ! kubernetes_has_name_server "$KUBERNETES_RESOLV_CONF"; then
        KUBERNETES_RESOLV_CONF=$DIR/resolv.conf
        if [ -n "$IPV6_ONLY" ]; then
            NAMESERVER=${NAMESERVER:-2001:db8::1}
        fi
        echo "nameserver ${NAMESERVER:-192.0.2.1}" >"$KUBERNETES_RESOLV_CONF"
        cp "$1/kubeadm/patches/kubernetes-resolv-conf.yaml" "$patches/"
    fi
    # kube-proxy would raise the limit of tracked connections, which only the machine itself may do
    if [ ! -w /proc/sys/net/netfilter/nf_conntrack_max ]; then
        cp "$1/kubeadm/patches/kubernetes-conntrack.yaml" "$patches/"
    fi
}

# kubernetes_has_name_server FILE: whether a resolv.conf has a server that pods can reach.
kubernetes_has_name_server() {
    awk '$1 == "nameserver" && $2 !~ /^127\./ && $2 != "::1" { found = 1 } END { exit !found }' "$1" 2>/dev/null
}
