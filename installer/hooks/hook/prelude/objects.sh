# shellcheck shell=bash
# Asking the cluster, and scaling in it.

# kubernetes_resource_exists NAMESPACE KIND NAME
kubernetes_resource_exists() { kubectl --namespace "$1" get "$2" "$3" >/dev/null 2>&1; }

# kubernetes_secret_value NAMESPACE NAME KEY: prints the value, nothing if it is missing.
kubernetes_secret_value() {
    kubectl --namespace "$1" get secret "$2" --output "go-template={{with index .data \"$3\"}}{{. | base64decode}}{{end}}" 2>/dev/null || true
}

# sealift_scale NAMESPACE KIND NAME REPLICAS: if it is there.
sealift_scale() {
    ! kubernetes_resource_exists "$1" "$2" "$3" || kubectl --namespace "$1" scale "$2" "$3" --replicas "$4"
}

kubernetes_scale_down() { sealift_scale "$1" "$2" "$3" 0; }

# sealift_equal NAMESPACE KIND NAME FIELD…: whether all of these numbers are the same; one that is absent is 0.
sealift_equal() {
    local sealift_template='' sealift_number sealift_first=''
    local -a sealift_object=("$1" "$2" "$3") sealift_numbers
    shift 3
    printf -v sealift_template '{%s}|' "$@"
    sealift_template=$(kubectl --namespace "${sealift_object[0]}" get "${sealift_object[1]}" "${sealift_object[2]}" \
        --output "jsonpath=$sealift_template" 2>/dev/null) || return 1
    IFS='|' read -r -a sealift_numbers <<<"$sealift_template"
    for sealift_number in "${sealift_numbers[@]}"; do
        sealift_first=${sealift_first:-${sealift_number:-0}}
        [ "${sealift_number:-0}" = "$sealift_first" ] || return 1
    done
}

# deployment_fully_updated, statefulset_fully_updated, daemonset_fully_updated NAMESPACE NAME
deployment_fully_updated() {
    sealift_equal "$1" deployment "$2" .spec.replicas .status.replicas .status.availableReplicas .status.readyReplicas .status.updatedReplicas
}

statefulset_fully_updated() {
    sealift_equal "$1" statefulset "$2" .spec.replicas .status.replicas .status.readyReplicas .status.updatedReplicas
}

daemonset_fully_updated() {
    sealift_equal "$1" daemonset "$2" .status.desiredNumberScheduled .status.currentNumberScheduled .status.numberAvailable \
        .status.numberReady .status.updatedNumberScheduled
}

# check_for_running_pods NAMESPACE: whether every pod is running and ready, has succeeded, or was evicted. The names of the
# others are in UNHEALTHY_PODS.
check_for_running_pods() {
    local sealift_pods sealift_name sealift_phase sealift_reason sealift_ready
    export UNHEALTHY_PODS=''
    sealift_pods=$(kubectl --namespace "$1" get pods --output \
        'jsonpath={range .items[*]}{.metadata.name}|{.status.phase}|{.status.reason}|{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}') || return 1
    while IFS='|' read -r sealift_name sealift_phase sealift_reason sealift_ready; do
        case $sealift_phase/$sealift_reason/$sealift_ready in
        /* | Succeeded/* | */Evicted/* | Running/*/True) ;;
        *) UNHEALTHY_PODS+="${UNHEALTHY_PODS:+ }$sealift_name" ;;
        esac
    done <<<"$sealift_pods"
    [ -z "$UNHEALTHY_PODS" ]
}

# pods_gone_by_selector NAMESPACE SELECTOR: whether there is none.
pods_gone_by_selector() {
    local sealift_pods
    sealift_pods=$(kubectl --namespace "$1" get pods --selector "$2" --output name) && [ -z "$sealift_pods" ]
}

ekco_pods_gone() { pods_gone_by_selector kurl app=ekc-operator; }

prometheus_pods_gone() {
    pods_gone_by_selector monitoring app=prometheus && pods_gone_by_selector monitoring app.kubernetes.io/name=prometheus
}

# sealift_pod_phase POD NAMESPACE
sealift_pod_phase() { kubectl --namespace "$2" get pod "$1" --output 'jsonpath={.status.phase}' 2>/dev/null; }

# kubernetes_pod_started, kubernetes_pod_completed POD NAMESPACE
kubernetes_pod_started() { [[ $(sealift_pod_phase "$1" "$2") == @(Running|Failed|Succeeded) ]]; }
kubernetes_pod_completed() { [[ $(sealift_pod_phase "$1" "$2") == @(Failed|Succeeded) ]]; }

# spinnerPodRunning NAMESPACE PREFIX: waits for a running pod whose name begins so.
spinnerPodRunning() { spinner_until -1 sealift_pod_running "$1" "$2"; }

sealift_pod_running() {
    kubectl --namespace "$1" get pods --field-selector status.phase=Running --output name 2>/dev/null | grep -q "^pod/$2"
}

# kubernetes_service_healthy NAMESPACE SERVICE: whether it has an endpoint.
kubernetes_service_healthy() {
    [ -n "$(kubectl --namespace "$1" get endpoints "$2" --output 'jsonpath={.subsets[*].addresses[*].ip}' 2>/dev/null)" ]
}
