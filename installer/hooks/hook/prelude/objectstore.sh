# shellcheck shell=bash
# The object store of the cluster, which one add-on makes and others use.

object_store_exists() {
    [ -n "${OBJECT_STORE_ACCESS_KEY:-}" ] && [ -n "${OBJECT_STORE_SECRET_KEY:-}" ] && [ -n "${OBJECT_STORE_CLUSTER_IP:-}" ]
}

# object_store_running: whether Rook or MinIO has credentials for one.
object_store_running() {
    kubernetes_resource_exists rook-ceph secret rook-ceph-object-user-rook-ceph-store-kurl ||
        kubernetes_resource_exists "${MINIO_NAMESPACE:-minio}" secret minio-credentials
}

# object_store_create_bucket BUCKET: makes it unless it is there.
object_store_create_bucket() {
    object_store_exists || bail "there is no object store to make the bucket $1 in: name minio or rook in the Installer"
    sealift_ask create-bucket "$OBJECT_STORE_CLUSTER_IP" "$OBJECT_STORE_ACCESS_KEY" "$OBJECT_STORE_SECRET_KEY" "$1"
}
