# shellcheck shell=bash

flannel() {
    local dir HOST PORT
    dir=$(sealift_add_on_dir flannel)
    cp "$DIR/addons/flannel/$FLANNEL_VERSION"/yaml/* "$dir/"
    splitHostPort "$KUBERNETES_API_ENDPOINT"
    FLANNEL_API_HOST=$HOST FLANNEL_API_PORT=$PORT
    render_yaml_file_2 "$dir/network.tmpl.yaml" >"$dir/network.yaml"
    sealift_apply flannel "$dir"
}
