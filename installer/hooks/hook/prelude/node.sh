# shellcheck shell=bash
# This node, and how its cluster was made.

get_local_node_name() { printf '%s\n' "$HOSTNAME"; }

# kubernetes_is_master: whether this node is, or becomes, a control plane.
kubernetes_is_master() { [ "${MASTER:-}" = 1 ] || [ -f /etc/kubernetes/manifests/kube-apiserver.yaml ]; }

kubeadm_get_server_ca() { echo /etc/kubernetes/pki/ca.crt; }
kubeadm_get_server_ca_key() { echo /etc/kubernetes/pki/ca.key; }
kubeadm_get_client_kube_apiserver_crt() { echo /etc/kubernetes/pki/apiserver-kubelet-client.crt; }
kubeadm_get_client_kube_apiserver_key() { echo /etc/kubernetes/pki/apiserver-kubelet-client.key; }
kubeadm_get_containerd_sock() { echo /run/containerd/containerd.sock; }

# kubeadm_registry_containerd_configure ADDRESS: containerd trusts the registry of the cluster by the cluster's own CA.
kubeadm_registry_containerd_configure() {
    local sealift_dir
    for sealift_dir in "/etc/containerd/certs.d/$1" "/etc/containerd/certs.d/$1:443"; do
        mkdir -p "$sealift_dir"
        printf 'server = "https://%s"\nca = "%s"\n' "$1" "$(kubeadm_get_server_ca)" >"$sealift_dir/hosts.toml"
    done
}

# sealift_trust_registry: once the cluster has a registry, containerd on this node trusts it. It reads that at each pull.
sealift_trust_registry() { [ -z "${DOCKER_REGISTRY_IP:-}" ] || "${K8S_DISTRO}_registry_containerd_configure" "$DOCKER_REGISTRY_IP"; }

# kubernetes_get_control_plane_label: prints the label that this cluster's control planes have.
kubernetes_get_control_plane_label() {
    if [ -n "$(kubectl get nodes --selector node-role.kubernetes.io/control-plane --output name 2>/dev/null)" ]; then
        echo node-role.kubernetes.io/control-plane
    elif [ -n "$(kubectl get nodes --selector node-role.kubernetes.io/master --output name 2>/dev/null)" ]; then
        echo node-role.kubernetes.io/master
    else
        echo node-role.kubernetes.io/control-plane
    fi
}

# parse_kubernetes_target_version: sets KUBERNETES_TARGET_VERSION_MAJOR, _MINOR and _PATCH.
parse_kubernetes_target_version() {
    local major minor patch
    semverParse "${KUBERNETES_VERSION:-}"
    # shellcheck disable=SC2034
    KUBERNETES_TARGET_VERSION_MAJOR=$major KUBERNETES_TARGET_VERSION_MINOR=$minor KUBERNETES_TARGET_VERSION_PATCH=$patch
}

node_is_using_docker() {
    kubectl get node "$(get_local_node_name)" --output 'jsonpath={.metadata.annotations.kubeadm\.alpha\.kubernetes\.io/cri-socket}' 2>/dev/null |
        grep -q dockershim
}

# discover_pod_subnet, discover_service_subnet: Sealift chose both before the first hook ran; where it did not, a free one is
# looked for.
discover_pod_subnet() {
    POD_CIDR=${POD_CIDR:-${EXISTING_POD_CIDR:-}}
    POD_CIDR=${POD_CIDR:-$("$BIN_SUBNET" --subnet-alloc-range 10.32.0.0/16 --cidr-range "${POD_CIDR_RANGE:-20}")}
}

discover_service_subnet() {
    SERVICE_CIDR=${SERVICE_CIDR:-${EXISTING_SERVICE_CIDR:-}}
    SERVICE_CIDR=${SERVICE_CIDR:-$("$BIN_SUBNET" --subnet-alloc-range 10.96.0.0/16 --cidr-range "${SERVICE_CIDR_RANGE:-22}" --exclude-subnet "${POD_CIDR:-}")}
}

# check_network: waits ten minutes, or longer on a slow host, until a node is Ready, which it is not before its pod network is.
check_network() {
    spinner_until 600 sealift_node_ready || bail "no node became Ready in time; see 'kubectl describe nodes'"
}

sealift_node_ready() {
    kubectl get nodes --output 'jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}' 2>/dev/null | grep -qx True
}

# cert_has_san HOST:PORT NAME: whether the certificate that is served there is good for a name or address.
cert_has_san() { sealift_ask certificate-has-name "$1" "$2"; }

# build_installer_prefix ID VERSION URL PROXY HTTPS_PROXY: how a person fetches a script; from the bundle, without a URL.
build_installer_prefix() {
    local sealift_proxy=${5:-${4:-}}
    if [ -z "$3" ]; then
        printf 'cat '
        return
    fi
    printf 'curl -fsSL %s%s/%s%s/' "${sealift_proxy:+-x $sealift_proxy }" "$3" "${2:+version/$2/}" "$1"
}
