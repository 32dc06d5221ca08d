# shellcheck shell=bash

containerd_install() {
    local src="$DIR/addons/containerd/$CONTAINERD_VERSION"
    logStep "containerd $CONTAINERD_VERSION"
    sealift_unpack "$src/assets/containerd-$SEALIFT_ARCH.tar.gz" /usr/local
    sealift_place 0755 "$src/assets/runc-$SEALIFT_ARCH" /usr/local/sbin/runc
    containerd_configure "$src"
    systemctl daemon-reload
    systemctl enable containerd
    restart_systemd_and_wait containerd
}

containerd_configure() {
    # the image that kubeadm asks for, which Kubernetes' package carries; without Kubernetes there are no pods
    CONTAINERD_PINNED_IMAGES=''
    [ -z "$PAUSE_IMAGE" ] || CONTAINERD_PINNED_IMAGES="sandbox = '$PAUSE_IMAGE'"
    CONTAINERD_SYSTEMD_CGROUP=false
    [ "$SEALIFT_CGROUP_DRIVER" != systemd ] || CONTAINERD_SYSTEMD_CGROUP=true
    CONTAINERD_RESTRICT_OOM_SCORE=true
    [ -z "$SEALIFT_CAN_LOWER_OOM_SCORE" ] || CONTAINERD_RESTRICT_OOM_SCORE=false
    sealift_place 0644 "$1/containerd.service" /etc/systemd/system/containerd.service
    if [ -n "$CONTAINERD_PRESERVE_CONFIG" ] && [ -f /etc/containerd/config.toml ]; then
        logWarn "/etc/containerd/config.toml is kept as it is"
        return
    fi
    # the newest that this containerd has: 4 from 2.3 on, where some releases ignore or refuse a drop-in that is newer than config.toml
    CONTAINERD_CONFIG_SCHEMA=$(containerd_config_schema)
    mkdir -p /etc/containerd/conf.d
    render_yaml_file_2 "$1/config.tmpl.toml" | sealift_place 0644 /dev/stdin /etc/containerd/config.toml
    if [ -n "$CONTAINERD_TOML_CONFIG" ]; then
        # it may have passwords of registries
        printf '%s\n' "$CONTAINERD_TOML_CONFIG" | sealift_place 0600 /dev/stdin /etc/containerd/conf.d/installer.toml
    else
        rm -f /etc/containerd/conf.d/installer.toml
    fi
}

# containerd_config_schema: the version of the configuration that containerd writes.
containerd_config_schema() { /usr/local/bin/containerd config default | awk '$1 == "version" && !found++ { print $3 }'; }
