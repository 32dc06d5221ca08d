# shellcheck shell=bash

gatekeeper_preflights() {
    [[ $GATEKEEPER_REPLICAS =~ ^[1-9][0-9]?$ ]] || bail "gatekeeper.replicas must be a number from 1 to 99"
    [[ $GATEKEEPER_FAILURE_POLICY =~ ^(Ignore|Fail)$ ]] || bail "gatekeeper.failurePolicy must be Ignore or Fail"
}

gatekeeper() {
    local dir patch from="$DIR/addons/gatekeeper/$GATEKEEPER_VERSION"
    dir=$(sealift_add_on_dir gatekeeper)
    cp "$from"/charts/gatekeeper/* "$from"/yaml/* "$dir/"
    insert_patches_strategic_merge "$dir/kustomization.yaml" namespace.yaml
    insert_patches_strategic_merge "$dir/kustomization.yaml" budget.yaml
    for patch in deployment webhook; do
        render_yaml_file_2 "$dir/$patch.tmpl.yaml" >"$dir/$patch.yaml"
        insert_patches_strategic_merge "$dir/kustomization.yaml" "$patch.yaml"
    done
    sealift_apply gatekeeper "$dir"
}
