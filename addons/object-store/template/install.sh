# shellcheck shell=bash
# shellcheck disable=SC2153 # variables of the Installer

object-store_preflights() {
    local word
    [[ $OBJECT_STORE_CLAIM_SIZE =~ ^[1-9][0-9]*([KMGTP]i?)?$ ]] || bail "objectStore.claimSize must be a size such as 20Gi"
    [[ ${OBJECT_STORE_STORAGE_CLASS_NAME:-} =~ ^[a-z0-9.-]*$ ]] || bail "objectStore.storageClassName is not the name of a storage class"
    [[ ${OBJECT_STORE_NODE_PORT:-0} =~ ^[0-9]{1,5}$ ]] || bail "objectStore.nodePort must be a port"
    for word in ${OBJECT_STORE_BUCKETS//,/ }; do
        [[ $word =~ ^[a-z0-9][a-z0-9-]{1,55}[a-z0-9]$ ]] || bail "objectStore.buckets: $word is not a name of 3 to 57 small letters, digits and dashes"
    done
}

object-store() {
    local dir source="$DIR/addons/object-store/$OBJECT_STORE_VERSION" bucket file OBJECT_STORE_DIGEST OBJECT_STORE_BUCKET_SECRET
    dir=$(sealift_add_on_dir object-store)
    chmod 0700 "$dir" # it has credentials
    cp "$source"/charts/versitygw/* "$source"/yaml/* "$dir/"
    # shellcheck disable=SC2086 # each name is a word
    sealift_certificate object-store object-store-tls "$dir/certificate.yaml" object-store.object-store.svc \
        object-store.object-store.svc.cluster.local object-store.object-store ${OBJECT_STORE_NAMES//,/ }
    object-store_root "$dir"
    for bucket in ${OBJECT_STORE_BUCKETS//,/ }; do
        object-store_credentials "$bucket" object-store "bucket-$bucket" "$dir/bucket-$bucket.yaml"
        insert_resources "$dir/kustomization.yaml" "bucket-$bucket.yaml"
    done
    for file in certificate.yaml root.yaml; do
        insert_resources "$dir/kustomization.yaml" "$file"
    done
    # shellcheck disable=SC2034 # a template reads it
    OBJECT_STORE_DIGEST=$(cat "$dir/certificate.yaml" "$dir/root.yaml" | sha256sum | head -c 16)
    object-store_patch "$dir" deployment
    object-store_patch "$dir" claim
    [ -z "${OBJECT_STORE_STORAGE_CLASS_NAME:-}" ] || object-store_patch "$dir" class
    [ "${OBJECT_STORE_NODE_PORT:-0}" = 0 ] || object-store_patch "$dir" port
    insert_patches_strategic_merge "$dir/kustomization.yaml" namespace.yaml
    sealift_apply object-store "$dir"
}

object-store_post_init() {
    local bucket
    for bucket in ${OBJECT_STORE_BUCKETS//,/ }; do
        object-store_make "$bucket" "$(object-store_value object-store "bucket-$bucket" secretKey)"
    done
}

# object-store_patch DIR NAME: a template becomes a patch of the chart's objects.
object-store_patch() {
    render_yaml_file_2 "$1/$2.tmpl.yaml" >"$1/$2.yaml"
    insert_patches_strategic_merge "$1/kustomization.yaml" "$2.yaml"
}

# object-store_root DIR: writes the credentials of the administrator, which stay as they are once the cluster has them.
object-store_root() {
    local OBJECT_STORE_ROOT_SECRET
    OBJECT_STORE_ROOT_SECRET=$(object-store_value object-store object-store-root rootSecretAccessKey)
    [ -n "$OBJECT_STORE_ROOT_SECRET" ] || OBJECT_STORE_ROOT_SECRET=$(object-store_random)
    render_yaml_file_2 "$1/root.tmpl.yaml" >"$1/root.yaml"
}

# object-store_bucket BUCKET NAMESPACE SECRET FILE: for the hooks of other add-ons, once the store runs. It makes a bucket with an owner, and
# writes the Secret with the owner's credentials to FILE, which the add-on applies with its other objects.
object-store_bucket() {
    local OBJECT_STORE_BUCKET_SECRET
    object-store_credentials "$@"
    object-store_make "$1" "$OBJECT_STORE_BUCKET_SECRET"
}

# object-store_credentials BUCKET NAMESPACE SECRET FILE: writes the Secret of a bucket's owner, and sets OBJECT_STORE_BUCKET_SECRET. Credentials
# that the cluster has stay. The owner has one key, in however many Secrets: that of an add-on, which works with it, comes first.
object-store_credentials() {
    local OBJECT_STORE_BUCKET=$1 OBJECT_STORE_BUCKET_NAMESPACE=$2 OBJECT_STORE_BUCKET_NAME=$3 OBJECT_STORE_BUCKET_BASE64 place owner
    OBJECT_STORE_BUCKET_BASE64=$(printf %s "$1" | base64 -w 0)
    OBJECT_STORE_BUCKET_SECRET=''
    for place in registry/registry-bucket velero/velero-bucket "$2/$3" "object-store/bucket-$1"; do
        owner=$(object-store_value "${place%/*}" "${place#*/}" accessKey)
        [ -n "$OBJECT_STORE_BUCKET_SECRET" ] || [ "$owner" != "$OBJECT_STORE_BUCKET_BASE64" ] ||
            OBJECT_STORE_BUCKET_SECRET=$(object-store_value "${place%/*}" "${place#*/}" secretKey)
    done
    [ -n "$OBJECT_STORE_BUCKET_SECRET" ] || OBJECT_STORE_BUCKET_SECRET=$(object-store_random)
    (umask 077 && render_yaml_file_2 "$DIR/addons/object-store/$OBJECT_STORE_VERSION/yaml/bucket.tmpl.yaml" >"$4")
}

# object-store_make BUCKET SECRET: makes a bucket and its owner in the store, or gives the owner this secret key, which is in base64.
object-store_make() {
    kubectl --namespace object-store rollout status deployment/object-store --timeout 300s >/dev/null
    # shellcheck disable=SC2016 # the variables are those of the pod
    printf '%s\n' "$1" "$(base64 -d <<<"$2")" | kubectl --namespace object-store exec --stdin deployment/object-store -- sh -c '
        set -eu
        read -r bucket
        read -r secret
        export ADMIN_ACCESS_KEY_ID="$ROOT_ACCESS_KEY_ID" ADMIN_SECRET_ACCESS_KEY="$ROOT_SECRET_ACCESS_KEY"
        admin() { versitygw admin --endpoint-url https://127.0.0.1:7070 --allow-insecure "$@"; }
        admin update-user --access "$bucket" --secret "$secret" >/dev/null 2>&1 ||
            admin create-user --access "$bucket" --secret "$secret" --role user
        admin change-bucket-owner --bucket "$bucket" --owner "$bucket" >/dev/null 2>&1 ||
            admin create-bucket --bucket "$bucket" --owner "$bucket"
    ' || bail "the object store could not make the bucket $1; its log: kubectl --namespace object-store logs deployment/object-store"
}

# object-store_value NAMESPACE SECRET KEY: prints a value of a Secret in base64, or nothing if the cluster does not have it.
object-store_value() { kubectl --namespace "$1" get secret "$2" --ignore-not-found --output "jsonpath={.data.$3}"; }

# object-store_random: prints 32 letters and digits in base64.
object-store_random() { head -c 96 /dev/urandom | base64 -w 0 | tr -dc 'A-Za-z0-9' | head -c 32 | base64 -w 0; }
