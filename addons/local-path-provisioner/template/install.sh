# shellcheck shell=bash

local-path-provisioner() {
    local dir
    dir=$(sealift_add_on_dir local-path-provisioner)
    [[ $LOCAL_PATH_PROVISIONER_HOST_PATH == /?* && $LOCAL_PATH_PROVISIONER_HOST_PATH != *[\"\\[:cntrl:]]* && $LOCAL_PATH_PROVISIONER_HOST_PATH/ != */../* ]] ||
        bail "localPathProvisioner.hostPath must be an absolute path without '..', quotes, backslashes and line ends"
    cp "$DIR/addons/local-path-provisioner/$LOCAL_PATH_PROVISIONER_VERSION"/yaml/* "$dir/"
    render_yaml_file_2 "$dir/folders.tmpl.json" >"$dir/config.json"
    sealift_apply local-path-provisioner "$dir"
}
