# shellcheck shell=bash
# shellcheck disable=SC2153 # variables of the Installer

volume-snapshots_preflights() {
    [[ $VOLUME_SNAPSHOTS_REPLICAS =~ ^[1-9]$ ]] || bail "volumeSnapshots.replicas must be a number from 1 to 9"
}

volume-snapshots() {
    local dir kind from="$DIR/addons/volume-snapshots/$VOLUME_SNAPSHOTS_VERSION"
    dir=$(sealift_add_on_dir volume-snapshots)
    cp "$from"/yaml/* "$from"/assets/*.yaml "$dir/"
    for kind in volumegroupsnapshotclasses volumegroupsnapshotcontents volumegroupsnapshots volumesnapshotclasses volumesnapshotcontents volumesnapshots; do
        insert_resources "$dir/kustomization.yaml" "$kind.yaml"
    done
    render_yaml_file_2 "$dir/replicas.tmpl.yaml" >"$dir/replicas.yaml"
    insert_patches_strategic_merge "$dir/kustomization.yaml" replicas.yaml
    sealift_apply volume-snapshots "$dir"
}
