# shellcheck shell=bash
# Rook and ekco, which add-ons hold still while they change storage, and moves between storage systems, which Sealift refuses.

rook_disable_ekco_operator() {
    kubernetes_resource_exists kurl deployment ekc-operator || return 0
    kubernetes_scale_down kurl deployment ekc-operator
    spinner_until 120 ekco_pods_gone
}

rook_enable_ekco_operator() { sealift_scale kurl deployment ekc-operator 1; }

# current_ceph_version: prints what the first manager says.
current_ceph_version() {
    kubectl --namespace rook-ceph get deployment rook-ceph-mgr-a --output 'jsonpath={.metadata.labels.ceph-version}' 2>/dev/null |
        sed 's/-.*//'
}

# sealift_rook_versions LABEL: prints how many different values a label has among Rook's deployments. Rook before 1.4.8 leaves some
# at 0.0.0-0, which is no version.
sealift_rook_versions() {
    kubectl --namespace rook-ceph get deployments --selector rook_cluster=rook-ceph --output \
        "jsonpath={range .items[*]}{.metadata.labels.$1}{\"\\n\"}{end}" | grep -v '^0\.0\.0' | sort --unique | grep -c .
}

# rook_is_healthy_to_upgrade: pods within five minutes, Ceph within ten, one version of both.
rook_is_healthy_to_upgrade() {
    spinner_until 300 check_for_running_pods rook-ceph || { logFail "pods of rook-ceph are not well: $UNHEALTHY_PODS" && return 1; }
    "$BIN_KURL" rook wait-for-health 600 || { logFail "Ceph is not healthy" && return 1; }
    [ "$(sealift_rook_versions rook-version)" = 1 ] || { logFail "Rook runs in several versions" && return 1; }
    [ "$(sealift_rook_versions ceph-version)" = 1 ] || { logFail "Ceph runs in several versions" && return 1; }
}

rook_is_healthy_to_migrate_from() { rook_is_healthy_to_upgrade; }

# sealift_no_migration WHAT
sealift_no_migration() {
    logFail "Sealift does not move data between storage systems: $1. Move it with the tools of the storage, or keep the storage in the Installer"
    return 1
}

longhorn_prepare_for_migration() { sealift_no_migration "from Longhorn"; }
longhorn_restore_migration_replicas() { sealift_no_migration "from Longhorn"; }
longhorn_to_sc_migration() { sealift_no_migration "volumes of Longhorn to ${1:-another class}"; }
rook_ceph_to_sc_migration() { sealift_no_migration "volumes of Rook to ${1:-another class}"; }
migrate_object_store() { sealift_no_migration "buckets from ${2:-one store} to ${5:-another}"; }
migrate_rgw_to_minio() { sealift_no_migration "buckets of Rook to MinIO"; }
add_rook_pvc_migration_status() { sealift_no_migration "volumes of Rook"; }
add_rook_store_object_migration_status() { sealift_no_migration "buckets of Rook"; }

migrate_minio_to_rgw() {
    kubectl get namespace "${MINIO_NAMESPACE:-minio}" >/dev/null 2>&1 || return 0
    sealift_no_migration "buckets of MinIO to Rook"
}

# maybe_cleanup_rook, maybe_cleanup_longhorn: there is nothing to clean up, since nothing was moved.
maybe_cleanup_rook() { :; }
maybe_cleanup_longhorn() { :; }
