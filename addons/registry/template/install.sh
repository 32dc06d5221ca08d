# shellcheck shell=bash
# shellcheck disable=SC2153 # variables of the Installer

registry_preflights() {
    local storage=${REGISTRY_STORAGE:-}
    [[ ${REGISTRY_STORAGE:-} =~ ^(volume|object-store|)$ ]] || bail "registry.storage must be volume or object-store"
    [[ ${REGISTRY_CLAIM_SIZE:-20Gi} =~ ^[1-9][0-9]*([KMGTP]i?)?$ ]] || bail "registry.claimSize must be a size such as 20Gi"
    [[ ${REGISTRY_STORAGE_CLASS_NAME:-} =~ ^[a-z0-9.-]*$ ]] || bail "registry.storageClassName is not the name of a storage class"
    [[ ${REGISTRY_PUBLISH_PORT:-0} =~ ^[0-9]{1,5}$ ]] || bail "registry.publishPort must be a port"
    [[ ${REGISTRY_PULL_NAMESPACES//,/ } =~ ^[a-z0-9\ -]*$ ]] || bail "registry.pullNamespaces are not names of namespaces"
    ! commandExists kubectl || storage=$(registry_storage 2>/dev/null) || storage=${REGISTRY_STORAGE:-} # the cluster may be down
    [ -n "${OBJECT_STORE_VERSION:-}" ] || [ "$storage" != object-store ] ||
        bail "the registry keeps its images in the object store: name objectStore in the Installer"
}

registry() {
    local dir address addresses storage file namespace REGISTRY_LOGIN
    # shellcheck disable=SC2034 # templates read it
    local REGISTRY_CLAIM_SIZE=${REGISTRY_CLAIM_SIZE:-20Gi}
    dir=$(sealift_add_on_dir registry)
    chmod 0700 "$dir" # it has credentials
    cp "$DIR/addons/registry/$REGISTRY_VERSION"/yaml/* "$dir/"
    address=$(registry_address "$dir")
    registry_patch "$dir" address REGISTRY_ADDRESS="$address"
    [ "${REGISTRY_PUBLISH_PORT:-0}" = 0 ] || registry_patch "$dir" port
    addresses=$(registry_addresses)
    # shellcheck disable=SC2086 # each address is a word
    sealift_certificate registry registry-tls "$dir/tls.yaml" registry.registry.svc registry.registry.svc.cluster.local registry.registry \
        "$address" $addresses
    registry_credentials "$dir"
    storage=$(registry_storage)
    registry_keep_in "$storage" "$dir"
    for file in tls.yaml credentials.yaml "config-$storage.yaml"; do
        insert_resources "$dir/kustomization.yaml" "$file"
    done
    registry_patch "$dir" digest REGISTRY_DIGEST="$(cat "$dir/tls.yaml" "$dir/credentials.yaml" "$dir/config-$storage.yaml" | sha256sum | head -c 16)"
    for namespace in ${REGISTRY_PULL_NAMESPACES//,/ }; do
        registry_pull "$dir" "$namespace" "$address"
    done
    registry_trust "$address"
    sealift_apply registry "$dir"
}

# registry_join: the control plane told this host where the registry is.
registry_join() {
    [ -z "${DOCKER_REGISTRY_IP:-}" ] || registry_trust "$DOCKER_REGISTRY_IP"
}

# registry_trust ADDRESS: containerd on this host pulls from the registry by its name and by its address. It reads that at each pull.
registry_trust() {
    local host=$1 name=/etc/containerd/certs.d/registry.registry.svc
    [[ $host != *:* ]] || host="[$host]"
    kubeadm_registry_containerd_configure "$host"
    mkdir -p "$name"
    cp "/etc/containerd/certs.d/$host/hosts.toml" "$name/hosts.toml"
}

# registry_address DIR: prints the address of the Service, which is made first of all, because the certificate names it.
registry_address() {
    local address
    address=${KURL_REGISTRY_IP:-$(kubectl --namespace registry get service registry --ignore-not-found --output 'jsonpath={.spec.clusterIP}')} || return 1
    if [ -z "$address" ]; then
        mkdir "$1/first"
        cp "$1/namespace.yaml" "$1/service.yaml" "$1/first/"
        printf 'resources: [namespace.yaml, service.yaml]\n' >"$1/first/kustomization.yaml"
        sealift_apply registry "$1/first" >&2
        address=$(kubectl --namespace registry get service registry --output 'jsonpath={.spec.clusterIP}') || return 1
    fi
    printf '%s' "$address"
}

# registry_addresses: prints the addresses of nodes that the certificate is good for: with a port on each node, those of all nodes, and the
# public one.
registry_addresses() {
    local nodes=''
    if [ "${REGISTRY_PUBLISH_PORT:-0}" != 0 ]; then
        nodes=$(kubectl get nodes --output 'jsonpath={range .items[*]}{.status.addresses[?(@.type=="InternalIP")].address}{"\n"}{end}') || return 1
        nodes+=" ${PUBLIC_ADDRESS:-}"
    fi
    # shellcheck disable=SC2086 # each address is a word
    printf '%s\n' "$PRIVATE_ADDRESS" $nodes | sort -u
}

# registry_patch DIR NAME [VARIABLE=VALUE]: a template becomes a patch.
registry_patch() {
    [ -z "${3:-}" ] || local "$3"
    render_yaml_file_2 "$1/$2.tmpl.yaml" >"$1/$2.yaml"
    insert_patches_strategic_merge "$1/kustomization.yaml" "$2.yaml"
}

# registry_storage: prints volume or object-store: what the cluster has, the option, or the object store if there is one. It fails without an
# answer of the cluster: the registry would move to an empty store.
registry_storage() {
    local bucket claim
    bucket=$(kubectl --namespace registry get secret registry-bucket --ignore-not-found --output name) || return 1
    claim=$(kubectl --namespace registry get persistentvolumeclaim registry-data --ignore-not-found --output name) || return 1
    if [ -n "$bucket" ]; then
        echo object-store
    elif [ -n "$claim" ]; then
        echo volume
    elif [ -n "${REGISTRY_STORAGE:-}" ]; then
        echo "$REGISTRY_STORAGE"
    elif [ -n "${OBJECT_STORE_VERSION:-}" ]; then
        echo object-store
    else
        echo volume
    fi
}

# registry_keep_in STORAGE DIR: adds the volume, or the bucket.
registry_keep_in() {
    insert_patches_strategic_merge "$2/kustomization.yaml" "in-$1.yaml"
    if [ "$1" = volume ]; then
        render_yaml_file_2 "$2/claim.tmpl.yaml" >"$2/claim.yaml"
        insert_resources "$2/kustomization.yaml" claim.yaml
        [ -z "${REGISTRY_STORAGE_CLASS_NAME:-}" ] || registry_patch "$2" class
        return
    fi
    [ -n "${OBJECT_STORE_VERSION:-}" ] || bail "the registry keeps its images in the object store: name objectStore in the Installer"
    addon_fetch object-store "$OBJECT_STORE_VERSION"
    commandExists object-store_bucket || bail "this object store has no buckets for add-ons: set registry.storage to volume"
    object-store_bucket registry registry registry-bucket "$2/bucket.yaml"
    insert_resources "$2/kustomization.yaml" bucket.yaml
}

# registry_credentials DIR: writes the password, which stays as it is once the cluster has it.
registry_credentials() {
    local REGISTRY_PASSWORD_BASE64 REGISTRY_HTPASSWD_BASE64 hash
    REGISTRY_PASSWORD_BASE64=$(registry_value registry-credentials password)
    REGISTRY_HTPASSWD_BASE64=$(registry_value registry-htpasswd htpasswd)
    if [ -z "$REGISTRY_PASSWORD_BASE64" ] || [ -z "$REGISTRY_HTPASSWD_BASE64" ]; then
        REGISTRY_PASSWORD_BASE64=$(head -c 96 /dev/urandom | base64 -w 0 | tr -dc 'A-Za-z0-9' | head -c 32 | base64 -w 0)
        hash=$(base64 -d <<<"$REGISTRY_PASSWORD_BASE64" | "$DIR/bin/bcrypt") # no argument, which every user of the host sees
        REGISTRY_HTPASSWD_BASE64=$(printf 'registry:%s\n' "$hash" | base64 -w 0)
    fi
    render_yaml_file_2 "$1/credentials.tmpl.yaml" >"$1/credentials.yaml"
    REGISTRY_LOGIN=$(printf 'registry:%s' "$(base64 -d <<<"$REGISTRY_PASSWORD_BASE64")" | base64 -w 0)
}

# registry_pull DIR NAMESPACE ADDRESS: writes what lets the pods of a namespace pull by the name and by the address of the registry.
registry_pull() {
    local REGISTRY_PULL_NAMESPACE=$2 REGISTRY_DOCKER_CONFIG_BASE64
    REGISTRY_DOCKER_CONFIG_BASE64=$(printf '{"auths":{"registry.registry.svc":{"auth":"%s"},"%s":{"auth":"%s"}}}' "$REGISTRY_LOGIN" "$3" "$REGISTRY_LOGIN" | base64 -w 0)
    render_yaml_file_2 "$1/pull.tmpl.yaml" >"$1/pull-$2.yaml"
    insert_resources "$1/kustomization.yaml" "pull-$2.yaml"
}

# registry_value SECRET KEY: prints a value of a Secret in base64, or nothing if the cluster does not have it.
registry_value() { kubectl --namespace registry get secret "$1" --ignore-not-found --output "jsonpath={.data.$2}"; }
