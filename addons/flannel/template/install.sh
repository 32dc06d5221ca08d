# shellcheck shell=bash

flannel() {
    local dir network=network.tmpl.yaml HOST PORT
    [ -z "$IPV6_ONLY" ] || network='network-ipv6.tmpl.yaml'
    [ -z "${POD_CIDR6:-}" ] || network='network-dual-stack.tmpl.yaml'
    dir=$(sealift_add_on_dir flannel)
    cp "$DIR/addons/flannel/$FLANNEL_VERSION"/yaml/* "$dir/"
    splitHostPort "$KUBERNETES_API_ENDPOINT"
    HOST=${HOST#[} # flanneld sets brackets around an IPv6 address itself
    FLANNEL_API_HOST=${HOST%]} FLANNEL_API_PORT=$PORT
    render_yaml_file_2 "$dir/$network" >"$dir/network.yaml"
    sealift_apply flannel "$dir"
}
