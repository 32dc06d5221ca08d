# shellcheck shell=bash

kube-network-policies() {
    local dir
    dir=$(sealift_add_on_dir kube-network-policies)
    cp "$DIR/addons/kube-network-policies/$KUBE_NETWORK_POLICIES_VERSION"/yaml/* "$dir/"
    sealift_apply kube-network-policies "$dir"
}
