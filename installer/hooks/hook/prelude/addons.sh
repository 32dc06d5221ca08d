# shellcheck shell=bash
# Add-ons that call add-ons, and what the installer calls.

# sealift_add_on NAME VERSION: sets sealift_reply to the add-on's folder, or ends the hook.
sealift_add_on() {
    sealift_reply=$DIR/addons/$1/$2
    [ -f "$sealift_reply/install.sh" ] || bail "the bundle has no add-on $1 $2: name it in the Installer and make the bundle again"
}

# addon_fetch NAME VERSION: reads its functions; its files are on the node.
addon_fetch() {
    local sealift_reply
    sealift_add_on "$1" "$2"
    # shellcheck disable=SC1091
    . "$sealift_reply/install.sh"
}

# addon_load NAME VERSION: brings its images into containerd.
addon_load() { load_images "$DIR/addons/$1/$2/images"; }

# load_images DIR: the images of an add-on are read from the bundle; others from files. A folder that is not there has none.
load_images() {
    local sealift_reply
    sealift_absolute "$1"
    if [ -d "$sealift_reply" ] || [[ $sealift_reply == "$DIR"/addons/*/*/images ]]; then
        sealift_ask load-images "$sealift_reply"
    fi
}

# sealift_is_function NAME: there may be a program of that name, such as containerd.
sealift_is_function() { declare -F "$1" >/dev/null; }

# sealift_applied NAME: prints the variable that says with which version and options an add-on was applied.
sealift_applied() { printf 'SEALIFT_APPLIED_%s' "${1//[^A-Za-z0-9_]/_}"; }
sealift_options() { printf 'SEALIFT_OPTIONS_%s' "${1//[^A-Za-z0-9_]/_}"; }

# addon_has_been_applied NAME, addon_set_has_been_applied NAME VERSION
addon_has_been_applied() {
    local sealift_done sealift_with sealift_version
    sealift_done=$(sealift_applied "$1") sealift_with=$(sealift_options "$1")
    sealift_version=${1//-/_}_VERSION
    sealift_version=${sealift_version^^}
    [ "${!sealift_done-}" = "${2:-${!sealift_version-}} ${!sealift_with-}" ]
}

addon_set_has_been_applied() {
    local sealift_with sealift_version
    sealift_with=$(sealift_options "$1")
    sealift_version=${1//-/_}_VERSION
    sealift_version=${sealift_version^^}
    printf -v "$(sealift_applied "$1")" '%s' "${2:-${!sealift_version-}} ${!sealift_with-}"
}

# addon_install NAME VERSION: applies an add-on now.
addon_install() {
    local sealift_reply
    addon_fetch "$1" "$2"
    rm -rf "${DIR:?}/kustomize/$1"
    mkdir -p "$DIR/kustomize/$1"
    report_addon_start "$1" "$2"
    # kURL calls this one, which only its registry has, right after it made the cluster
    if sealift_is_function "$1_init"; then
        "$1_init"
        sealift_trust_registry
    fi
    if sealift_is_function "$1"; then
        "$1"
    elif sealift_is_function "$1_install"; then
        "$1_install"
    fi
    addon_set_has_been_applied "$1" "$2"
    # shellcheck disable=SC2034
    ! sealift_is_function "$1_join" || ADDONS_HAVE_HOST_COMPONENTS=1
    report_addon_success "$1" "$2"
}

# sealift_install NAME VERSION [later]: the step of an add-on. Where another add-on had it applied before, just so, its
# _already_applied hook runs instead, if it has one. With later, what it applies is waited for when all add-ons are applied.
sealift_install() {
    local sealift_reply sealift_later=''
    # shellcheck disable=SC2034
    [ "${3-}" != later ] || sealift_later=$1
    if ! addon_has_been_applied "$1" "$2"; then
        addon_install "$1" "$2"
        return
    fi
    log "add-on $1 $2 has been applied by another add-on"
    addon_fetch "$1" "$2"
    ! sealift_is_function "$1_already_applied" || "$1_already_applied"
}

addon_pre_init() { ! sealift_is_function "$1_pre_init" || "$1_pre_init"; }
addon_post_init() { ! sealift_is_function "$1_post_init" || "$1_post_init"; }

# addon_join NAME VERSION: on a node that joins.
addon_join() {
    addon_fetch "$1" "$2"
    addon_load "$1" "$2"
    ! sealift_is_function "$1_join" || "$1_join"
}

# addon_preflight NAME VERSION: prints where its preflight checks are, and those that its hook writes.
addon_preflight() {
    local sealift_file=$DIR/addons/$1/$2/host-preflight.yaml
    ! sealift_is_function "$1_preflights" || "$1_preflights"
    [ ! -f "$sealift_file" ] || printf '%s\n' "$sealift_file"
}

# sealift_preflights NAME: what its hook for checks prints, and what it warns of, in files for Go.
sealift_preflights() {
    local sealift_warnings=$DIR/warnings
    : >"$sealift_warnings"
    "$1_preflights" >"$DIR/preflights"
}
