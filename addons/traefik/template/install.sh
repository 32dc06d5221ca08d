# shellcheck shell=bash

traefik_preflights() {
    local port
    [[ $TRAEFIK_REPLICAS =~ ^[1-9][0-9]?$ ]] || bail "traefik.replicas must be a number from 1 to 99"
    for port in "$TRAEFIK_HTTP_NODE_PORT" "$TRAEFIK_HTTPS_NODE_PORT"; do
        [[ $port =~ ^[1-9][0-9]{1,4}$ ]] || bail "traefik.httpNodePort and httpsNodePort must be node ports, such as 30080"
    done
    [ "$TRAEFIK_HTTP_NODE_PORT" != "$TRAEFIK_HTTPS_NODE_PORT" ] || bail "traefik.httpNodePort and httpsNodePort must differ"
}

# shellcheck disable=SC2034 # a template has TRAEFIK_DEFAULT
traefik() {
    local dir patch from="$DIR/addons/traefik/$TRAEFIK_VERSION" TRAEFIK_DEFAULT=false
    dir=$(sealift_add_on_dir traefik)
    cp "$from"/charts/traefik/* "$from"/yaml/* "$from/assets/gateway-api.yaml" "$dir/"
    insert_resources "$dir/kustomization.yaml" gateway-api.yaml
    [ -z "$TRAEFIK_IS_DEFAULT_CLASS" ] || TRAEFIK_DEFAULT=true
    insert_patches_strategic_merge "$dir/kustomization.yaml" namespace.yaml
    for patch in deployment service ingressclass; do
        render_yaml_file_2 "$dir/$patch.tmpl.yaml" >"$dir/$patch.yaml"
        insert_patches_strategic_merge "$dir/kustomization.yaml" "$patch.yaml"
    done
    sealift_apply traefik "$dir"
}
