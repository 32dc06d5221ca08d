# shellcheck shell=bash
# shellcheck disable=SC2153 # variables of the Installer

velero_preflights() {
    local flag
    [[ $VELERO_LOCAL_BUCKET =~ ^[a-z0-9][a-z0-9-]{1,55}[a-z0-9]$ ]] || bail "velero.localBucket must be 3 to 57 small letters, digits and dashes"
    [[ ${VELERO_BUCKET_FROM:-} =~ ^([a-z0-9-]+/[a-z0-9.-]+)?$ ]] || bail "velero.bucketFrom must be NAMESPACE/NAME of a Secret"
    [[ ${VELERO_SCHEDULE:-} =~ ^([0-9*/,-]+( [0-9*/,-]+){4})?$ ]] || bail "velero.schedule must be five fields of cron such as 0 2 * * *"
    [[ $VELERO_KEEP =~ ^[1-9][0-9]*h$ ]] || bail "velero.keep must be hours such as 720h"
    for flag in ${VELERO_SERVER_FLAGS//,/ }; do
        [[ $flag =~ ^--[a-z0-9-]+(=[A-Za-z0-9.:/_-]+)?$ ]] || bail "velero.serverFlags: $flag is not a flag such as --log-level=debug"
    done
    [ -n "${OBJECT_STORE_VERSION:-}" ] || [ -n "${VELERO_BUCKET_FROM:-}" ] ||
        bail "velero keeps backups in a bucket: name objectStore in the Installer, or a Secret in velero.bucketFrom"
}

velero() {
    local dir file VELERO_DIGEST from="$DIR/addons/velero/$VELERO_VERSION"
    dir=$(sealift_add_on_dir velero)
    chmod 0700 "$dir" # it has credentials
    cp "$from"/yaml/* "$from"/assets/*.yaml "$dir/"
    for file in "$from"/assets/*.yaml; do
        insert_resources "$dir/kustomization.yaml" "${file##*/}"
    done
    velero_bucket "$dir"
    # shellcheck disable=SC2034 # templates read it
    VELERO_DIGEST=$(sha256sum "$dir/bucket.yaml" | head -c 16)
    velero_location "$dir"
    velero_patch "$dir" server VELERO_ARGUMENTS="$(velero_arguments)"
    if [ -n "$VELERO_VOLUMES" ]; then
        insert_resources "$dir/kustomization.yaml" agent.yaml
        insert_patches_strategic_merge "$dir/kustomization.yaml" privileged.yaml
        velero_patch "$dir" agent-settings
    fi
    [ -z "${VELERO_SCHEDULE:-}" ] || velero_object "$dir" schedule
    sealift_apply velero "$dir"
    kubectl --namespace velero wait backupstoragelocation/default --for 'jsonpath={.status.phase}=Available' --timeout 120s >/dev/null ||
        logWarn "Velero does not reach its bucket yet: kubectl --namespace velero get backupstoragelocation default --output yaml says why"
}

# velero_patch DIR NAME [VARIABLE=VALUE]: a template becomes a patch.
velero_patch() {
    [ -z "${3:-}" ] || local "$3"
    render_yaml_file_2 "$1/$2.tmpl.yaml" >"$1/$2.yaml"
    insert_patches_strategic_merge "$1/kustomization.yaml" "$2.yaml"
}

# velero_object DIR NAME: a template becomes an object.
velero_object() {
    (umask 077 && render_yaml_file_2 "$1/$2.tmpl.yaml" >"$1/$2.yaml")
    insert_resources "$1/kustomization.yaml" "$2.yaml"
}

# velero_arguments: prints those of the server, as the items of a list in YAML.
velero_arguments() {
    local flag
    printf 'server, --default-backup-ttl=%s, --repo-maintenance-job-configmap=velero-maintenance' "$VELERO_KEEP"
    [ -z "$VELERO_VOLUMES" ] || printf ', --default-volumes-to-fs-backup'
    for flag in ${VELERO_SERVER_FLAGS//,/ }; do
        printf ', "%s"' "$flag"
    done
}

# velero_bucket DIR: writes the Secret with the credentials of the bucket, from the Secret that the Installer names, or as the object store
# makes them.
velero_bucket() {
    local VELERO_BUCKET_ENDPOINT VELERO_BUCKET_REGION VELERO_BUCKET_NAME VELERO_BUCKET_ACCESS_KEY VELERO_BUCKET_SECRET_KEY VELERO_BUCKET_CA
    if [ -z "${VELERO_BUCKET_FROM:-}" ]; then
        addon_fetch object-store "$OBJECT_STORE_VERSION"
        commandExists object-store_bucket || bail "this object store has no buckets for add-ons: set velero.bucketFrom"
        object-store_bucket "$VELERO_LOCAL_BUCKET" velero velero-bucket "$1/bucket.yaml"
        insert_resources "$1/kustomization.yaml" bucket.yaml
        return
    fi
    # shellcheck disable=SC2034 # the template reads them
    {
        VELERO_BUCKET_ENDPOINT=$(velero_value endpoint)
        VELERO_BUCKET_REGION=$(velero_value region)
        VELERO_BUCKET_NAME=$(velero_value bucket)
        VELERO_BUCKET_ACCESS_KEY=$(velero_value accessKey)
        VELERO_BUCKET_SECRET_KEY=$(velero_value secretKey)
        VELERO_BUCKET_CA=$(velero_value 'ca\.crt')
    }
    velero_object "$1" bucket
}

# velero_value KEY: prints a value of the Secret that the Installer names, in base64, or nothing if it does not have it.
velero_value() {
    kubectl --namespace "${VELERO_BUCKET_FROM%%/*}" get secret "${VELERO_BUCKET_FROM#*/}" --ignore-not-found --output "jsonpath={.data.$1}"
}

# velero_location DIR: writes where the server finds the bucket, which the Secret says.
velero_location() {
    local VELERO_LOCATION_ENDPOINT VELERO_LOCATION_REGION VELERO_LOCATION_BUCKET
    # shellcheck disable=SC2034 # the template reads them
    {
        VELERO_LOCATION_ENDPOINT=$(velero_says "$1" endpoint '^https?://[][A-Za-z0-9.:/_-]+$')
        VELERO_LOCATION_REGION=$(velero_says "$1" region '^[A-Za-z0-9-]+$')
        VELERO_LOCATION_BUCKET=$(velero_says "$1" bucket '^[A-Za-z0-9.-]+$')
    }
    velero_says "$1" accessKey . >/dev/null
    velero_says "$1" secretKey . >/dev/null
    velero_object "$1" location
}

# velero_says DIR KEY PATTERN: prints a value of the Secret.
velero_says() {
    local value
    value=$(sed -n "s|^  $2: \"\\{0,1\\}\\([A-Za-z0-9+/=]*\\)\"\\{0,1\\}\$|\\1|p" "$1/bucket.yaml" | base64 -d)
    [[ $value =~ $3 ]] || bail "velero.bucketFrom: the Secret ${VELERO_BUCKET_FROM:-velero/velero-bucket} has no valid $2"
    printf %s "$value"
}
