#!/usr/bin/env bash
# Installs the bundle that lies in this folder, packed or unpacked:
#
#     tar xzf BUNDLE.tar.gz install.sh
#     cat install.sh | sudo bash -s airgap
#
# It takes the sealift that the bundle carries, checks it, and starts it.
set -eu

platform='@PLATFORM@'
digest='@SHA256@'

die() {
    printf 'install.sh: %s\n' "$*" >&2
    exit "${status:-1}"
}

host_platform() {
    case "$(uname -s) $(uname -m)" in
    'Linux x86_64') echo linux/amd64 ;;
    'Linux aarch64') echo linux/arm64 ;;
    *) uname -s -m ;;
    esac
}

# find_bundle: the bundle to install is $SEALIFT_BUNDLE, or unpacked here, or the only archive here.
find_bundle() {
    if [ -n "${SEALIFT_BUNDLE:-}" ]; then
        printf '%s' "$SEALIFT_BUNDLE"
    elif [ -f index.json ] && [ -f bin/sealift ]; then
        printf .
    else
        local archives=(*.tar.gz)
        [ -f "${archives[0]}" ] || die "no bundle here; change to the folder that has it, or set SEALIFT_BUNDLE"
        [ "${#archives[@]}" = 1 ] || die "more than one archive here: ${archives[*]}; name the bundle with SEALIFT_BUNDLE"
        printf '%s' "${archives[0]}"
    fi
}

main() {
    local bundle binary folder code=0 options=() resume
    resume="cd $(printf %q "$PWD") && cat install.sh | sudo ${SEALIFT_BUNDLE:+SEALIFT_BUNDLE=$(printf %q "$SEALIFT_BUNDLE") }bash -s"
    [ $# = 0 ] || resume+=$(printf ' %q' "$@")
    while [ $# -gt 0 ]; do
        case $1 in
        airgap) ;;
        yes) options+=(--yes) ;;
        *) options+=("$1") ;; # sealift knows what it means
        esac
        shift
    done
    [ "$(id -u)" = 0 ] || status=3 die "an install changes packages and services; run it with sudo"
    [ "$(host_platform)" = "$platform" ] || status=3 die "this host is $(host_platform), the bundle is for $platform"
    bundle=$(find_bundle)
    mkdir -p -m 0700 /var/lib/sealift
    # what an install that was killed left
    find /var/lib/sealift -maxdepth 1 -name '.install-*' -mmin +60 -exec rm -rf {} +
    folder=$(mktemp -d -p /var/lib/sealift .install-XXXXXX)
    # shellcheck disable=SC2064
    trap "rm -rf '$folder'; rmdir --ignore-fail-on-non-empty /var/lib/sealift 2>/dev/null || :" EXIT
    binary=$folder/sealift
    if [ -d "$bundle" ]; then
        cp "$bundle/bin/sealift" "$binary"
    else
        tar xzf "$bundle" --occurrence=1 --no-same-owner -O bin/sealift >"$binary" || die "$bundle has no bin/sealift, or is damaged; copy it again"
    fi
    printf '%s  %s\n' "$digest" "$binary" | sha256sum --check --status || die "bin/sealift of $bundle is not the one that this install.sh was made with; copy the bundle again"
    chmod 0700 "$binary"
    SEALIFT_RESUME=$resume "$binary" install --bundle "$bundle" "${options[@]}" || code=$?
    exit "$code"
}

main "$@"
