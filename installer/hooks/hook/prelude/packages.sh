# shellcheck shell=bash
# Packages and services of the host. What the Manifests name was installed before the first hook ran, from the bundle, with
# the host's own package manager; what is asked for here is mostly there.

is_ubuntu_2404() { [ "${LSB_DIST:-}" = ubuntu ] && [ "${DIST_VERSION:-}" = 24.04 ]; }
is_ubuntu_2604() { [ "${LSB_DIST:-}" = ubuntu ] && [ "${DIST_VERSION:-}" = 26.04 ]; }
is_amazon_2023() { [ "${LSB_DIST:-}" = amzn ] && [ "${DIST_VERSION_MAJOR:-}" = 2023 ]; }

# use_os_containerd: kURL carries no containerd for these.
use_os_containerd() { is_ubuntu_2404 || is_ubuntu_2604 || is_amazon_2023; }

# host_packages_shipped: what is not in the bundle is named by install_host_archives.
host_packages_shipped() { return 0; }

# sealift_host_has_debs: whether this host is of Debian's family. One of Red Hat's can have dpkg and apt as well, as packages of rpm's.
sealift_host_has_debs() {
    commandExists dpkg-query && { ! commandExists rpm || dpkg-query --show dpkg >/dev/null 2>&1; }
}

# sealift_host_package_there NAME
sealift_host_package_there() {
    if sealift_host_has_debs; then
        dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed
    else
        rpm --query --whatprovides "$1" >/dev/null 2>&1
    fi
}

yum_is_host_package_installed() { rpm --query "$1" >/dev/null 2>&1; }

# ensure_host_package YUM_NAME|skip APT_NAME|skip: installs from the bundle what is missing.
ensure_host_package() {
    local sealift_name=$1
    ! sealift_host_has_debs || sealift_name=$2
    if [ "$sealift_name" = skip ] || sealift_host_package_there "$sealift_name"; then
        return 0
    fi
    sealift_ask host-packages "$sealift_name" || bail "the host package $sealift_name is missing: install it, and run the same command again"
}

# sealift_kurl_targets: the names that kURL's packages have for this OS, the best first.
sealift_kurl_targets() {
    case ${LSB_DIST:-} in
    ubuntu | debian) echo "$LSB_DIST-$DIST_VERSION" ;;
    ol) printf '%s\n' "ol-$DIST_VERSION_MAJOR" "rhel-$DIST_VERSION_MAJOR" ;;
    amzn) if [ "$DIST_VERSION_MAJOR" = 2023 ]; then echo amazon-2023; else printf '%s\n' rhel-7-force rhel-7; fi ;;
    *) echo "rhel-${DIST_VERSION_MAJOR:-}" ;;
    esac
    # kURL has no folders for release 10, and installs those of 9 there
    case ${LSB_DIST:-}-${DIST_VERSION_MAJOR:-} in
    ubuntu-* | debian-* | amzn-*) ;;
    *-10) echo rhel-9 ;;
    esac
}

# sealift_install_files DIR SUBDIR NAME…: installs the packages that an add-on of kURL carries for this OS. An add-on that
# Sealift built has none there: its packages were installed with all others.
sealift_install_files() {
    local sealift_reply sealift_target sealift_need sealift_dir=$1 sealift_below=$2
    local -a sealift_targets sealift_needs
    shift 2
    if [ "${SKIP_SYSTEM_PACKAGE_INSTALL:-}" = 1 ]; then
        log "host packages are not installed, as the Installer says: $*"
        return 0
    fi
    mapfile -t sealift_targets < <(sealift_kurl_targets)
    for sealift_target in "${sealift_targets[@]}"; do
        if compgen -G "$sealift_dir/$sealift_target$sealift_below/*.deb" >/dev/null || compgen -G "$sealift_dir/$sealift_target$sealift_below/*.rpm" >/dev/null; then
            sealift_absolute "$sealift_dir/$sealift_target$sealift_below"
            sealift_ask host-package-files "$sealift_reply" "$@"
        elif [ -f "$sealift_dir/$sealift_target/Deps" ]; then
            mapfile -t sealift_needs < <(grep . "$sealift_dir/$sealift_target/Deps")
            for sealift_need in "${sealift_needs[@]}"; do
                ensure_host_package "$sealift_need" "$sealift_need"
            done
        else
            continue
        fi
        return 0
    done
    log "no files of host packages in $sealift_dir for ${LSB_DIST:-this system} ${DIST_VERSION:-}: $*"
}

# install_host_archives, install_host_packages DIR NAME…: from DIR/<os>/archives, and from DIR/<os>.
install_host_archives() { sealift_install_files "$1" /archives "${@:2}"; }
install_host_packages() { sealift_install_files "$1" '' "${@:2}"; }
yum_install_host_archives() { install_host_archives "$@"; }
dpkg_install_host_archives() { install_host_archives "$@"; }
yum_install_host_packages() { install_host_packages "$@"; }
dpkg_install_host_packages() { install_host_packages "$@"; }

# sealift_service_of UNIT: enables and starts a unit.
sealift_service_of() {
    systemctl --quiet is-enabled "$1" 2>/dev/null || systemctl enable "$1"
    systemctl --quiet is-active "$1" || systemctl start "$1"
}

# install_nfs_utils_if_missing_common DIR
install_nfs_utils_if_missing_common() {
    if ! sealift_host_package_there nfs-utils && ! sealift_host_package_there nfs-common; then
        install_host_archives "$1" nfs-utils nfs-common
        ensure_host_package nfs-utils nfs-common
    fi
    sealift_service_of nfs-utils.service
}

# longhorn_install_iscsi_if_missing_common DIR
longhorn_install_iscsi_if_missing_common() {
    if ! sealift_host_package_there iscsi-initiator-utils && ! sealift_host_package_there open-iscsi; then
        install_host_archives "$1" iscsi-initiator-utils open-iscsi
        ensure_host_package iscsi-initiator-utils open-iscsi
    fi
    sealift_service_of iscsid
}

# longhorn_host_init_common DIR
longhorn_host_init_common() {
    longhorn_install_iscsi_if_missing_common "$1"
    install_nfs_utils_if_missing_common "$1"
    mkdir -p /var/lib/longhorn
    chmod 0700 /var/lib/longhorn
}

# sealift_place MODE FILE TO: copies a file to TO, as a file of root. A loss of power leaves the earlier file there, or the new one whole:
# without its container runtime or kubelet, the only control plane could not go on with an upgrade.
sealift_place() {
    install -m "$1" "$2" "$3.sealift-new"
    [ ! -e "$3" ] || sync "$3.sealift-new"
    mv -fT "$3.sealift-new" "$3"
    sealift_label "$3"
}

# sealift_label FILE: gives a file that got its name by mv the label that SELinux has for that name.
sealift_label() { ! commandExists restorecon || restorecon "$1" || true; }

# sealift_unpack FILE DIR: unpacks a .tar.gz, as files of root, which replace earlier ones as sealift_place does. igzip takes a third of
# gzip's time, and comes with containerd where the system has it.
sealift_unpack() {
    local new="$2/.sealift-new" file
    rm -rf "$new"
    mkdir -p "$new"
    if ! command -v igzip >/dev/null || ! tar xf "$1" --use-compress-program igzip --no-same-owner -C "$new"; then
        tar xzf "$1" --no-same-owner -C "$new"
    fi
    while IFS= read -r -d '' file; do
        [ -d "$2/$file" ] || install -d -m 0755 "$2/$file"
    done < <(cd "$new" && find . -mindepth 1 -type d -print0)
    while IFS= read -r -d '' file; do
        if [ -f "$2/$file" ] && [ -f "$new/$file" ]; then
            sync "$new/$file"
        fi
        mv -fT "$new/$file" "$2/$file"
        sealift_label "$2/$file"
    done < <(cd "$new" && find . ! -type d -print0)
    rm -rf "$new"
}
