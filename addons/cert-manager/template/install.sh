# shellcheck shell=bash

cert-manager() {
    local dir from="$DIR/addons/cert-manager/$CERT_MANAGER_VERSION"
    dir=$(sealift_add_on_dir cert-manager)
    cp "$from"/charts/cert-manager/* "$from"/yaml/* "$dir/"
    insert_patches_strategic_merge "$dir/kustomization.yaml" namespace.yaml
    sealift_apply cert-manager "$dir"
}
