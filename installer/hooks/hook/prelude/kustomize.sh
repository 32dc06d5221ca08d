# shellcheck shell=bash
# Editing kustomizations.

# sealift_edit VERB FILE [ARG…]: Go edits the file.
sealift_edit() {
    local sealift_reply sealift_verb=$1
    sealift_absolute "$2"
    shift 2
    sealift_ask "$sealift_verb" "$sealift_reply" "$@"
}

# insert_resources KUSTOMIZATION FILE: puts a file first among the resources.
insert_resources() { sealift_edit kustomization-insert "$1" resources "$2"; }

# insert_patches_strategic_merge KUSTOMIZATION FILE: puts a patch first.
insert_patches_strategic_merge() { sealift_edit kustomization-insert "$1" patchesStrategicMerge "$2"; }

# insert_bases KUSTOMIZATION DIR: a base is a resource for every kubectl that Sealift installs.
insert_bases() { sealift_edit kustomization-insert "$1" resources "$2"; }

# insert_patches_json_6902 KUSTOMIZATION FILE GROUP VERSION KIND NAME NAMESPACE: puts a JSON patch with its target first.
insert_patches_json_6902() { sealift_edit kustomization-json-patch "$@"; }

# kubernetes_kustomize_config_migrate DIR: rewrites bases and patches as current kustomize wants them.
kubernetes_kustomize_config_migrate() {
    local sealift_file
    for sealift_file in "$1"/kustomization.yaml "$1"/kustomization.yml "$1"/Kustomization; do
        [ ! -f "$sealift_file" ] || sealift_edit kustomization-fix "$sealift_file"
    done
}

# sealift_add_on_dir NAME: prints the folder that kustomize builds for an add-on, made empty.
sealift_add_on_dir() {
    local dir="$DIR/kustomize/$1"
    rm -rf "$dir"
    mkdir -p "$dir"
    printf '%s' "$dir"
}

# sealift_apply NAME DIR: applies a kustomization, prunes what the add-on no longer has, and waits until all of it is well,
# unless it is the add-on of a step that is waited for later.
sealift_apply() {
    local sealift_reply sealift_wait=5m
    [ "$1" != "${sealift_later-}" ] || sealift_wait=0s
    sealift_absolute "$2"
    sealift_ask apply "$1" "$sealift_reply" "$sealift_wait"
}

# sealift_certificate NAMESPACE SECRET FILE NAME…: writes a Secret with a certificate of the cluster's CA for a server in the cluster, its key
# and the CA to FILE, for an add-on to apply. NAMEs are DNS names and addresses. The certificate ends with its CA; one that the cluster has
# stays as long as it fits.
sealift_certificate() {
    local sealift_reply sealift_namespace=$1 sealift_secret=$2
    sealift_absolute "$3"
    shift 3
    sealift_ask certificate "$sealift_namespace" "$sealift_secret" "$sealift_reply" "$@"
}
