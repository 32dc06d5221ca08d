# shellcheck shell=bash

metrics-server() {
    local dir
    dir=$(sealift_add_on_dir metrics-server)
    cp "$DIR/addons/metrics-server/$METRICS_SERVER_VERSION"/yaml/* "$dir/"
    sealift_apply metrics-server "$dir"
}
