# shellcheck shell=bash

metallb_preflights() {
    local range
    for range in ${METALLB_ADDRESSES//,/ }; do
        [[ $range =~ ^[0-9a-fA-F.:]+(-[0-9a-fA-F.:]+|/[0-9]{1,3})$ ]] ||
            bail "metallb.addresses has $range; write a range such as 10.0.0.40-10.0.0.60, or a network such as 10.0.1.0/28"
    done
    for range in ${METALLB_INTERFACES//,/ }; do
        [[ $range =~ ^[A-Za-z0-9_.-]{1,15}$ ]] || bail "metallb.interfaces has $range, which is not the name of an interface"
    done
    [ -n "$METALLB_ADDRESSES" ] || logWarn "metallb.addresses is empty: Services get no address until the cluster has an IPAddressPool"
}

# shellcheck disable=SC2034 # the template has these variables
metallb() {
    local dir from="$DIR/addons/metallb/$METALLB_VERSION" METALLB_RANGES METALLB_LINKS METALLB_UNASKED=false
    dir=$(sealift_add_on_dir metallb)
    cp "$from"/charts/metallb/* "$from"/yaml/* "$dir/"
    insert_patches_strategic_merge "$dir/kustomization.yaml" namespace.yaml
    if [ -n "$METALLB_ADDRESSES" ]; then
        [ -z "$METALLB_AUTO_ASSIGN" ] || METALLB_UNASKED=true
        METALLB_RANGES="\"${METALLB_ADDRESSES//,/\", \"}\""
        METALLB_LINKS=${METALLB_INTERFACES:+"\"${METALLB_INTERFACES//,/\", \"}\""}
        render_yaml_file_2 "$dir/pool.tmpl.yaml" >"$dir/pool.yaml"
        insert_resources "$dir/kustomization.yaml" pool.yaml
    fi
    sealift_apply metallb "$dir"
}
