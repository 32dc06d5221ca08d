# shellcheck shell=bash
# The functions that scripts of kURL's test grid call, under the names that they have there. The runner puts this file on a node as
# /opt/kurl-testgrid/testhelpers.sh if a script of the test reads it. Like there, a check that fails ends the script. Unlike there,
# nothing is downloaded, and no password is in the log, although scripts run with -x.

# What the scripts hand to kubernetes_upgrade_bundle_url.
export KURL_URL=${KURL_URL:-file:///root/sealift-testgrid/cluster.tar.gz}
export KURL_UPGRADE_URL=${KURL_UPGRADE_URL:-file:///root/sealift-testgrid/upgrade/cluster.tar.gz}

fail_test() {
    printf 'failed: %s\n' "$*" >&2
    exit 1
}

# is_system PATTERN: compares what /etc/os-release says, such as ubuntu-24.04.
is_system() {
    local ID='' VERSION_ID=''
    # shellcheck disable=SC1091
    . /etc/os-release
    # shellcheck disable=SC2053
    [[ $ID-$VERSION_ID == $1 ]]
}

is_ubuntu_1804() { is_system ubuntu-18.04; }
is_ubuntu_2004() { is_system ubuntu-20.04; }
is_ubuntu_2204() { is_system ubuntu-22.04; }
is_ubuntu_2404() { is_system ubuntu-24.04; }
is_ubuntu_2604() { is_system ubuntu-26.04; }
is_amazon_2023() { is_system amzn-2023; }
is_rhel_9() { is_system '@(rhel|centos|rocky|ol|almalinux)-9*'; }

# install_host_packages NAME…: those that the host lacks, from its own repositories.
install_host_packages() {
    local name missing=()
    for name in "$@"; do
        if command -v dpkg-query >/dev/null; then
            [ "$(dpkg-query --show --showformat '${Status}' "$name" 2>/dev/null)" = 'install ok installed' ] || missing+=("$name")
        else
            rpm --query --quiet --whatprovides "$name" || missing+=("$name")
        fi
    done
    [ ${#missing[@]} != 0 ] || return 0
    if command -v apt-get >/dev/null; then
        apt-get update
        DEBIAN_FRONTEND=noninteractive apt-get install --yes "${missing[@]}"
    else
        yum install --assumeyes "${missing[@]}"
    fi
}

# They do nothing on other systems.
rhel_9_install_host_packages() { ! is_rhel_9 || install_host_packages "$@"; }
amazon_2023_install_host_packages() { ! is_amazon_2023 || install_host_packages "$@"; }
ubuntu_2404_install_host_packages() { ! is_ubuntu_2404 || install_host_packages "$@"; }
ubuntu_2604_install_host_packages() { ! is_ubuntu_2604 || install_host_packages "$@"; }

# kubernetes_upgrade_bundle_url INSTALL UPGRADE: kURL has the releases of Kubernetes between two versions in an archive of its own. The
# bundle of the upgrade has them here, so that this is an empty archive.
kubernetes_upgrade_bundle_url() {
    local archive=/opt/kurl-testgrid/kubernetes-between.tar.gz
    tar --create --gzip --file "$archive" --files-from /dev/null
    printf 'file://%s\n' "$archive"
}

# secret_value NAMESPACE NAME KEY
secret_value() { kubectl --namespace "$1" get secret "$2" --output "go-template={{index .data \"$3\" | base64decode}}"; }

# use_object_store NAMESPACE SERVICE SECRET ACCESS-KEY SECRET-KEY: the last two are keys of the Secret.
use_object_store() {
    local -
    { set +x; } 2>/dev/null
    OBJECT_STORE_ACCESS_KEY=$(secret_value "$1" "$3" "$4")
    OBJECT_STORE_SECRET_KEY=$(secret_value "$1" "$3" "$5")
    OBJECT_STORE_CLUSTER_IP=$(kubectl --namespace "$1" get service "$2" --output 'jsonpath={.spec.clusterIP}')
    export OBJECT_STORE_ACCESS_KEY OBJECT_STORE_SECRET_KEY OBJECT_STORE_CLUSTER_IP
}

minio_object_store_info() { use_object_store minio minio minio-credentials MINIO_ACCESS_KEY MINIO_SECRET_KEY; }
rook_ceph_object_store_info() {
    use_object_store rook-ceph rook-ceph-rgw-rook-ceph-store rook-ceph-object-user-rook-ceph-store-kurl AccessKey SecretKey
}

# object_store PATH [OPTION…]: a signed request by curl.
object_store() {
    local -
    { set +x; } 2>/dev/null
    printf 'user = "%s:%s"\n' "$OBJECT_STORE_ACCESS_KEY" "$OBJECT_STORE_SECRET_KEY" |
        curl --config - --fail --silent --show-error --globoff --noproxy '*' --aws-sigv4 aws:amz:us-east-1:s3 \
            --header 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "${@:2}" "http://$OBJECT_STORE_CLUSTER_IP/$1"
}

object_store_bucket_exists() { object_store "$1" --head --output /dev/null; }
object_store_create_bucket() { object_store_bucket_exists "$1" 2>/dev/null || object_store "$1" --request PUT; }
object_store_write_object() { object_store "$1/$2" --request PUT --data-binary "@$2"; }
object_store_get_object() { object_store "$1/$2" --output "$2"; }

# make_testfile BUCKET FILE: writes a file here and in the bucket.
make_testfile() {
    printf 'made at %s\n' "$(date --iso-8601=ns)" >"$2"
    object_store_write_object "$1" "$2"
}

# validate_testfile BUCKET FILE: the file in the bucket is that which is here.
validate_testfile() {
    object_store "$1/$2" | cmp - "$2" || fail_test "$2 in the bucket $1 is not what was stored there"
}

validate_read_write_object_store() {
    object_store_create_bucket "$1"
    make_testfile "$1" "$2"
    validate_testfile "$1" "$2"
}

wait_for_minio_ready() {
    kubectl --namespace minio wait pods --selector app=minio --for condition=Ready --timeout 1m || fail_test "MinIO's pods are not Ready"
}

dump_longhorn_logs() { kubectl --namespace longhorn-system get pods --output name | xargs --max-args 1 kubectl --namespace longhorn-system logs --all-containers; }

# create_deployment_with_mounted_volume NAME NAMESPACE PATH [IMAGE]: one pod with label app=NAME, and a claim NAME of 1 GiB at PATH.
create_deployment_with_mounted_volume() {
    kubectl --namespace "$2" create --filename - <<END
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: "$1"}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "$1"}
spec:
  selector: {matchLabels: {app: "$1"}}
  template:
    metadata: {labels: {app: "$1"}}
    spec:
      containers: [{name: main, image: "${4:-nginx}", volumeMounts: [{name: data, mountPath: "$3"}]}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: "$1"}}]
END
    kubectl --namespace "$2" rollout status deployment "$1" --timeout 2m || fail_test "the pod of deployment $1 in $2 does not run"
}

# pods_of NAME NAMESPACE
pods_of() { kubectl --namespace "$2" get pods --selector "app=$1" --output name; }

# create_random_file_and_upload_to_deployment NAME NAMESPACE FILE PATH: makes FILE here, and PATH in the pods. Not with dd: that of
# busybox takes a pause in the stream for its end.
create_random_file_and_upload_to_deployment() {
    local pod
    head --bytes 1M /dev/urandom >"$3"
    for pod in $(pods_of "$1" "$2"); do
        kubectl --namespace "$2" exec --stdin "$pod" -- tee "$4" <"$3" >/dev/null
    done
}

# download_file_from_deployment_and_compare NAME NAMESPACE FILE PATH
download_file_from_deployment_and_compare() {
    local pod
    for pod in $(pods_of "$1" "$2"); do
        kubectl --namespace "$2" exec "$pod" -- cat "$4" | cmp - "$3" || fail_test "$4 in $pod is not $3"
    done
}

# pvc_uses_provisioner NAME NAMESPACE PROVISIONER: the class of the claim, or its provisioner, has this in its name.
pvc_uses_provisioner() {
    local class
    class=$(kubectl --namespace "$2" get persistentvolumeclaim "$1" --output 'jsonpath={.spec.storageClassName}')
    class+=" $(kubectl get storageclass "$class" --output 'jsonpath={.provisioner}')"
    [[ $class == *"$3"* ]] || fail_test "the claim $1 in $2 is of $class, not of $3"
}

# registry_image: prints the image that the tests of the registry push and pull.
registry_image() { kubectl --namespace kurl get service registry --output 'jsonpath={.spec.clusterIP}/test/test:latest'; }

# test_push_image_to_registry: pushes the sandbox image of this node.
test_push_image_to_registry() {
    local - image pause password
    { set +x; } 2>/dev/null
    image=$(registry_image)
    pause=$(ctr --namespace k8s.io images list --quiet | sed --quiet '\,/pause:,p') # all of it: ctr fails if nobody reads on
    pause=${pause%%$'\n'*}
    [ -n "$pause" ] || fail_test "this node has no image of pause to push"
    password=$(secret_value default registry-creds .dockerconfigjson | sed 's/.*"password":"\([^"]*\)".*/\1/')
    ctr --namespace k8s.io images tag --force "$pause" "$image"
    ctr --namespace k8s.io images push --local --hosts-dir /etc/containerd/certs.d --platform "linux/$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')" \
        --user "kurl:$password" "$image" || fail_test "the registry does not take $image"
}

# test_pull_image_from_registry: the kubelet pulls the image with the Secret that the add-on made.
test_pull_image_from_registry() {
    kubectl --namespace default create --filename - <<END
apiVersion: v1
kind: Pod
metadata: {name: registry-pull}
spec:
  imagePullSecrets: [{name: registry-creds}]
  containers: [{name: main, image: "$(registry_image)", imagePullPolicy: Always}]
END
    kubectl --namespace default wait pod registry-pull --for condition=Ready --timeout 5m || fail_test "no pod runs with the image of the registry"
    kubectl --namespace default delete pod registry-pull --now
}
