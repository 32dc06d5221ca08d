# shellcheck shell=bash

operator() {
    local dir
    dir=$(sealift_add_on_dir operator)
    [[ $OPERATOR_REPLICAS =~ ^[1-9]$ ]] || bail "operator.replicas must be a number from 1 to 9"
    [ "$SEALIFT_MODULES" != '[]' ] || logWarn "the bundle has no module, so the operator has nothing to do"
    cp "$DIR/addons/operator/$OPERATOR_VERSION"/yaml/* "$dir/"
    render_yaml_file_2 "$dir/replicas.tmpl.yaml" >"$dir/replicas.yaml"
    sealift_modules addon-operator operator sealift-operator-definitions "$dir/modules.yaml"
    sealift_apply operator "$dir"
}
