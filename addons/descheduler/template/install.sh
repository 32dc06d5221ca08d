# shellcheck shell=bash

descheduler_preflights() {
    [[ $DESCHEDULER_INTERVAL =~ ^[1-9][0-9]{0,5}[smh]$ ]] || bail "descheduler.interval must be a duration such as 90s, 5m or 1h"
}

descheduler() {
    local dir from="$DIR/addons/descheduler/$DESCHEDULER_VERSION"
    dir=$(sealift_add_on_dir descheduler)
    cp "$from"/charts/descheduler/* "$from"/yaml/* "$dir/"
    render_yaml_file_2 "$dir/interval.tmpl.yaml" >"$dir/interval.yaml"
    insert_patches_strategic_merge "$dir/kustomization.yaml" interval.yaml
    sealift_apply descheduler "$dir"
}
