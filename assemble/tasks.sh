#!/usr/bin/env bash
# The tasks of kURL's tasks.sh. install.sh has this in it when it is given out as tasks.sh; the script's header comes from there.
# shellcheck disable=SC2034 # install.sh reads what name_task sets

kubernetes=/etc/kubernetes
admin=$kubernetes/admin.conf

# on_control_plane: ends unless this host has a control plane, and kubectl.
on_control_plane() {
    [ -f "$admin" ] || die "this task needs a control plane, and this host has no $admin"
    command -v kubectl >/dev/null || die "this task needs kubectl, which this host does not have"
}

# generate_admin_user writes a kubeconfig that is good for a year, for the user who called sudo.
generate_admin_user() {
    on_control_plane
    local user=${SUDO_USER:-root} config file
    file=$PWD/$user.conf
    config=$(mktemp)
    # shellcheck disable=SC2064
    trap "rm -f '$config'" EXIT
    kubectl --kubeconfig "$admin" --namespace kube-system get configmap kubeadm-config -o jsonpath='{.data.ClusterConfiguration}' >"$config"
    (
        umask 077
        kubeadm kubeconfig user --config "$config" --client-name "$user" --org system:masters --validity-period 8760h >"$file"
    )
    chown "$user" "$file"
    printf 'wrote %s; use it with: kubectl --kubeconfig %q get nodes\n' "$file" "$file"
}

# print_registry_login prints how to log in to the registry of the cluster.
print_registry_login() {
    on_control_plane
    local secret login='"([^"]+)":[[:space:]]*\{[^{}]*"username":[[:space:]]*"([^"]*)"[^{}]*"password":[[:space:]]*"([^"]*)"'
    secret=$(kubectl --kubeconfig "$admin" get secrets --all-namespaces --field-selector metadata.name=registry-creds -o jsonpath='{.items[0].data.\.dockerconfigjson}' 2>/dev/null | base64 --decode) || secret=''
    [[ $secret =~ $login ]] || die "the cluster has no Secret registry-creds; the add-on registry makes it"
    printf 'registry: %s\nusername: %s\npassword: %s\n' "${BASH_REMATCH[@]:1:3}"
}

# kotsadm_accept_tls_uploads lets the next visitor of the admin console upload its certificate. Versions of kotsadm read an annotation or
# a key of the Secret, when the proxy starts.
kotsadm_accept_tls_uploads() {
    on_control_plane
    local kubectl=(kubectl --kubeconfig "$admin" --namespace default)
    "${kubectl[@]}" get secret kotsadm-tls >/dev/null 2>&1 || die "the cluster has no Secret kotsadm-tls in the namespace default; the add-on kotsadm makes it"
    "${kubectl[@]}" patch secret kotsadm-tls --patch '{"metadata":{"annotations":{"acceptAnonymousUploads":"1"}},"stringData":{"acceptAnonymousUploads":"1"}}'
    "${kubectl[@]}" delete pods --selector app=kurl-proxy-kotsadm --ignore-not-found --wait=false
    echo "Anyone who reaches the admin console's page /tls can upload a certificate now. Upload yours soon: that ends it."
}

# taint_primaries keeps new pods off control planes.
taint_primaries() {
    on_control_plane
    kubectl --kubeconfig "$admin" taint nodes --overwrite --selector node-role.kubernetes.io/control-plane node-role.kubernetes.io/control-plane=:NoSchedule
    echo "Pods that run on control planes stay until they are restarted: kubectl rollout restart, or kubectl drain --ignore-daemonsets NODE and kubectl uncordon NODE."
}

# set_kubeconfig_server HOST lets the kubelet and administrators of this host reach the API at another host, such as a load balancer.
set_kubeconfig_server() {
    local server=${1-} file
    [[ $server =~ ^([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$ ]] || status=2 die "say which host, such as: bash -s set-kubeconfig-server 10.0.0.100:6443"
    case $server in
    *']') server=$server:6443 ;;
    *:*) ;; # with a port
    *) server=$server:6443 ;;
    esac
    [ -f "$kubernetes/kubelet.conf" ] || die "this host is not a node: it has no $kubernetes/kubelet.conf"
    for file in "$kubernetes"/{kubelet,admin,super-admin}.conf "${HOME:-/root}/.kube/config"; do
        [ -f "$file" ] || continue
        sed -i "s|^\( *server: \)https://.*|\1https://$server|" "$file"
        printf '%s uses https://%s\n' "$file" "$server"
    done
    systemctl restart kubelet
}

# name_task: the command of sealift and its options for a task, by its words. Tasks that sealift has no command for run here.
name_task() {
    local task=${1//_/-} word
    local from=()
    [ -z "$url" ] || from=(--from "$url")
    shift
    command=$task
    options=()
    case $task in
    load-images)
        command=images
        bundle=$(find_bundle)
        options=(load "$bundle")
        ;;
    join-token)
        for word in "$@"; do
            case $word in
            ha) options+=(--control-plane) ;;
            airgap) from=() ;;
            ipv6) ;; # sealift sees that by itself
            *) options+=("$word") ;;
            esac
        done
        command=token
        options=(create "${from[@]}" "${options[@]}")
        ;;
    reset)
        [ "${FORCE_RESET:-}" != 1 ] || options=(--yes --force)
        for word in "$@"; do
            case $word in
            kurl-install-directory=*) printf 'tasks.sh: %s has no effect: sealift knows what it has installed, and where\n' "$word" >&2 ;;
            *) options+=("$word") ;;
            esac
        done
        ;;
    generate-admin-user | print-registry-login | kotsadm-accept-tls-uploads | taint-primaries | set-kubeconfig-server)
        "${task//-/_}" "$@"
        exit
        ;;
    kubernetes-upgrade-load-assets | rook-upgrade-load-images | rook-10-to-14 | rook-10-to-14-images | migrate-* | remove-rook-ceph | weave-to-flannel-* | longhorn-node-init*)
        die "$task is a task of kURL's that sealift does not have; nothing was changed"
        ;;
    *) options=("$@") ;; # what sealift calls it
    esac
}
