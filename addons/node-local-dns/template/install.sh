# shellcheck shell=bash
# shellcheck disable=SC2153 # variables of the Installer

node-local-dns_preflights() {
    local octet octets='^([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})$'
    [ -z "$IPV6_ONLY" ] || bail "node-local-dns works in clusters with IPv4 only: take nodeLocalDns out of the Installer"
    [[ $NODE_LOCAL_DNS_ADDRESS =~ $octets ]] || bail "nodeLocalDns.address must be an IPv4 address such as 169.254.20.10"
    for octet in "${BASH_REMATCH[@]:1}"; do
        [ "$octet" -le 255 ] || bail "nodeLocalDns.address must be an IPv4 address such as 169.254.20.10"
    done
    [[ $NODE_LOCAL_DNS_SERVE_STALE =~ ^[1-9][0-9]{0,5}[smh]$ ]] || bail "nodeLocalDns.serveStale must be a duration such as 90s, 30m or 1h"
}

node-local-dns() {
    local dir NODE_LOCAL_DNS_SERVICE
    dir=$(sealift_add_on_dir node-local-dns)
    cp "$DIR/addons/node-local-dns/$NODE_LOCAL_DNS_VERSION"/yaml/* "$dir/"
    # shellcheck disable=SC2034 # templates read it
    NODE_LOCAL_DNS_SERVICE=$(kubectl --namespace kube-system get service kube-dns --output 'jsonpath={.spec.clusterIP}')
    render_yaml_file_2 "$dir/Corefile" >"$dir/Corefile.base"
    render_yaml_file_2 "$dir/addresses.tmpl.yaml" >"$dir/addresses.yaml"
    insert_patches_strategic_merge "$dir/kustomization.yaml" addresses.yaml
    sealift_apply node-local-dns "$dir"
}
