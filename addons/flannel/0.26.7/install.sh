# shellcheck shell=bash

flannel() {
    local dir
    dir=$(sealift_add_on_dir flannel)
    cp "$DIR/addons/flannel/$FLANNEL_VERSION"/yaml/* "$dir/"
    render_yaml_file_2 "$dir/network.tmpl.yaml" >"$dir/network.yaml"
    sealift_apply flannel "$dir"
}
