# shellcheck shell=bash
# shellcheck disable=SC2153 # variables of the Installer

prometheus_preflights() {
    local receiver
    [[ $PROMETHEUS_RETENTION =~ ^[1-9][0-9]*(h|d|w|y)$ ]] || bail "prometheus.retention must be a time such as 15d"
    [[ $PROMETHEUS_STORAGE_SIZE =~ ^[1-9][0-9]*(Mi|Gi|Ti)$ ]] || bail "prometheus.storageSize must be a size such as 20Gi"
    [[ ${PROMETHEUS_STORAGE_CLASS_NAME:-} =~ ^[a-z0-9.-]*$ ]] || bail "prometheus.storageClassName is not the name of a storage class"
    [[ ${PROMETHEUS_EXTERNAL_URL:-} =~ ^(https?://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~/-]*)?)?$ ]] || bail "prometheus.externalURL must be a URL such as https://prometheus.example.org"
    [[ $PROMETHEUS_METRICS_FOLDER =~ ^/[A-Za-z0-9._/-]+$ ]] || bail "prometheus.metricsFolder must be the path of a folder"
    [[ ${PROMETHEUS_RECEIVERS_FROM:-} =~ ^[a-z0-9.-]*$ ]] || bail "prometheus.receiversFrom is not the name of a Secret"
    [[ ${PROMETHEUS_SMTP_SERVER:-} =~ ^([A-Za-z0-9.-]+:[0-9]+)?$ ]] || bail "prometheus.smtpServer must be HOST:PORT"
    [[ ${PROMETHEUS_SMTP_FROM:-} =~ ^([A-Za-z0-9._+-]+@[A-Za-z0-9.-]+)?$ ]] || bail "prometheus.smtpFrom must be an address"
    [[ ${PROMETHEUS_SMTP_USER:-} =~ ^[A-Za-z0-9._+@-]*$ ]] || bail "prometheus.smtpUser has characters that no user of a mail server has"
    [ -z "${PROMETHEUS_SMTP_USER:-}" ] || [ -n "${PROMETHEUS_RECEIVERS_FROM:-}" ] ||
        bail "prometheus.smtpUser needs prometheus.receiversFrom: the Secret with the key smtp-password"
    for receiver in ${PROMETHEUS_RECEIVERS//,/ }; do
        prometheus_check_receiver "$receiver"
    done
}

# prometheus_check_receiver RECEIVER: refuses what is not a receiver. The message does not repeat it: the URL of a webhook may be a secret.
prometheus_check_receiver() {
    case $1 in
        http://* | https://*)
            [[ $1 =~ ^https?://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~/?%=\&:@+-]*)?$ ]] || bail "prometheus.receivers: the URL of a webhook has characters that must be written as %XX"
            ;;
        mailto:*)
            [[ $1 =~ ^mailto:[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+$ ]] || bail "prometheus.receivers: write mailto:NAME@HOST"
            if [ -z "${PROMETHEUS_SMTP_SERVER:-}" ] || [ -z "${PROMETHEUS_SMTP_FROM:-}" ]; then
                bail "prometheus.receivers has mailto: set prometheus.smtpServer and smtpFrom"
            fi
            ;;
        secret:*)
            [[ $1 =~ ^secret:[A-Za-z0-9._-]+$ ]] || bail "prometheus.receivers: write secret:KEY"
            [ -n "${PROMETHEUS_RECEIVERS_FROM:-}" ] || bail "prometheus.receivers has secret: set prometheus.receiversFrom to the name of the Secret"
            ;;
        *) bail "prometheus.receivers: one of them is neither a URL nor mailto:ADDRESS nor secret:KEY" ;;
    esac
}

prometheus() {
    local dir
    dir=$(sealift_add_on_dir prometheus)
    chmod 0700 "$dir" # it has credentials
    cp "$DIR/addons/prometheus/$PROMETHEUS_VERSION"/yaml/* "$dir/"
    "$SEALIFT_BIN" status --alert-rules file >"$dir/rules-sealift.yml"
    prometheus_receivers >"$dir/alertmanager.yml"
    prometheus_credentials "$dir"
    prometheus_certificate "$dir/tls.yaml"
    insert_resources "$dir/kustomization.yaml" credentials.yaml
    insert_resources "$dir/kustomization.yaml" tls.yaml
    prometheus_patch "$dir" args PROMETHEUS_RETENTION_SIZE="$(prometheus_retention_size)"
    prometheus_patch "$dir" service
    prometheus_patch "$dir" textfile
    [ -z "${PROMETHEUS_RECEIVERS_FROM:-}" ] || prometheus_patch "$dir" receivers
    prometheus_storage "$dir"
    sealift_apply prometheus "$dir"
}

# prometheus_patch DIR NAME [VARIABLE=VALUE]: a template becomes a patch.
prometheus_patch() {
    [ -z "${3:-}" ] || local "$3"
    render_yaml_file_2 "$1/$2.tmpl.yaml" >"$1/$2.yaml"
    insert_patches_strategic_merge "$1/kustomization.yaml" "$2.yaml"
}

# prometheus_storage DIR: keeps metrics on a volume if the cluster has one of before, or a class for it; else in the pod.
prometheus_storage() {
    local claim classes
    claim=$(kubectl --namespace prometheus get persistentvolumeclaim prometheus-data --ignore-not-found --output name)
    classes=$(kubectl get storageclasses --no-headers)
    if [ -z "$claim" ] && [ -z "${PROMETHEUS_STORAGE_CLASS_NAME:-}" ] && [[ $classes != *' (default) '* ]]; then
        logWarn "the cluster has no default storage class: Prometheus loses its metrics when its pod is replaced. Add an add-on with storage to the Installer, such as localPathProvisioner"
        prometheus_patch "$1" in-pod
        return
    fi
    render_yaml_file_2 "$1/claims.tmpl.yaml" >"$1/claims.yaml"
    insert_resources "$1/kustomization.yaml" claims.yaml
    prometheus_patch "$1" in-volume
    [ -z "${PROMETHEUS_STORAGE_CLASS_NAME:-}" ] || prometheus_patch "$1" class
}

# prometheus_retention_size: prints 80 % of the volume as Prometheus writes sizes: its log of writes needs room, too.
prometheus_retention_size() {
    local number=${PROMETHEUS_STORAGE_SIZE%?i} unit=1
    case $PROMETHEUS_STORAGE_SIZE in
        *Gi) unit=1024 ;;
        *Ti) unit=1048576 ;;
    esac
    printf '%dMB' $((number * unit * 8 / 10))
}

# prometheus_certificate FILE: one certificate serves both programs. Their probes ask localhost.
prometheus_certificate() {
    local host=${PROMETHEUS_EXTERNAL_URL:-}
    host=${host#*://}
    host=${host%%[:/]*}
    # shellcheck disable=SC2086 # no host is no word
    sealift_certificate prometheus prometheus-tls "$1" prometheus.prometheus.svc prometheus.prometheus.svc.cluster.local \
        alertmanager.prometheus.svc alertmanager.prometheus.svc.cluster.local localhost $host
}

# prometheus_credentials DIR: writes the password, which stays as it is once the cluster has it.
prometheus_credentials() {
    local PROMETHEUS_PASSWORD_BASE64 PROMETHEUS_WEB_BASE64 hash
    PROMETHEUS_PASSWORD_BASE64=$(prometheus_value prometheus-credentials password)
    PROMETHEUS_WEB_BASE64=$(prometheus_value prometheus-web 'web\.yml')
    if [ -z "$PROMETHEUS_PASSWORD_BASE64" ] || [ -z "$PROMETHEUS_WEB_BASE64" ]; then
        PROMETHEUS_PASSWORD_BASE64=$(head -c 96 /dev/urandom | base64 -w 0 | tr -dc 'A-Za-z0-9' | head -c 32 | base64 -w 0)
        hash=$(base64 -d <<<"$PROMETHEUS_PASSWORD_BASE64" | "$DIR/bin/bcrypt") # no argument, which every user of the host sees
        PROMETHEUS_WEB_BASE64=$(printf "tls_server_config: {cert_file: ../tls/tls.crt, key_file: ../tls/tls.key}\nbasic_auth_users: {prometheus: '%s'}\n" "$hash" | base64 -w 0)
    fi
    render_yaml_file_2 "$1/credentials.tmpl.yaml" >"$1/credentials.yaml"
}

# prometheus_value SECRET KEY: prints a value of a Secret in base64, or nothing if the cluster does not have it.
prometheus_value() { kubectl --namespace prometheus get secret "$1" --ignore-not-found --output "jsonpath={.data.$2}"; }

# prometheus_receivers: prints the configuration of Alertmanager. The checks of the host have looked at each value.
prometheus_receivers() {
    local receiver webhooks='' mails='' keys=/etc/alertmanager/receivers
    for receiver in ${PROMETHEUS_RECEIVERS//,/ }; do
        case $receiver in
            mailto:*) mails+="  - {to: \"${receiver#mailto:}\", send_resolved: true}"$'\n' ;;
            secret:*) webhooks+="  - {url_file: \"$keys/${receiver#secret:}\", send_resolved: true}"$'\n' ;;
            *) webhooks+="  - {url: \"$receiver\", send_resolved: true}"$'\n' ;;
        esac
    done
    printf 'global:\n  resolve_timeout: 5m\n'
    [ -z "$mails" ] || printf '  smtp_smarthost: "%s"\n  smtp_from: "%s"\n' "$PROMETHEUS_SMTP_SERVER" "$PROMETHEUS_SMTP_FROM"
    [ -z "$mails" ] || [ -z "${PROMETHEUS_SMTP_USER:-}" ] ||
        printf '  smtp_auth_username: "%s"\n  smtp_auth_password_file: "%s"\n' "$PROMETHEUS_SMTP_USER" "$keys/smtp-password"
    printf 'route:\n  receiver: people\n  group_by: [alertname]\n  group_wait: 30s\n  group_interval: 5m\n  repeat_interval: 12h\nreceivers:\n- name: people\n'
    [ -z "$webhooks" ] || printf '  webhook_configs:\n%s' "$webhooks"
    [ -z "$mails" ] || printf '  email_configs:\n%s' "$mails"
}
