#!/usr/bin/env bash
# Installs the bundle that lies in this folder, packed or unpacked:
#
#     tar xzf BUNDLE.tar.gz install.sh
#     cat install.sh | sudo bash -s airgap
#
# or, as a server gives it out, what the server has:
#
#     curl -fsSL URL | sudo bash
#
# It takes the sealift of the bundle or of the server, checks it, and starts it. join.sh and tasks.sh are this script with another
# command.
set -eu

[ -n "${BASH_VERSION:-}" ] || { # before the first line that other shells cannot read
    echo 'this script needs bash: run it with bash in place of sh' >&2
    exit 2
}

program='' # path of the sealift for this host in a bundle; choose_program sets it
digest=''
size='' # in bytes
command='@COMMAND@'
script=$command
url='@URL@'       # of the Installer on a server; empty in a bundle
archive='@PROGRAMS_URL@' # below which a server has the archives with sealift; choose_program completes it
node_binary=/usr/local/bin/sealift
unwritable='nothing can be written below /var/lib/sealift: mount its file system for writing, or free space on it'

die() {
    printf '%s.sh: %s\n' "$script" "$*" >&2
    exit "${status:-1}"
}

# choose_program: ends unless there is a sealift for this host.
choose_program() {
    local host
    host=$(uname -s -m)
    case $host in
    # @PROGRAMS@
    esac
    [ -n "$program" ] || status=3 die "this host is $host, the bundle is for @PLATFORMS@"
    archive=${archive:+$archive/$digest/@PROGRAM_FILE@}
}

# find_bundle: the bundle to install is $SEALIFT_BUNDLE, or unpacked or in parts here, or the only archive here. Licenses that lie beside a
# bundle, and a database of vulnerabilities, are no bundles.
find_bundle() {
    if [ -n "${SEALIFT_BUNDLE:-}" ]; then
        printf '%s' "$SEALIFT_BUNDLE"
    elif [ -f "$program" ] && { [ -f index.json ] || compgen -G '*.part-*' >/dev/null; }; then
        printf .
    else
        local archives=() name
        for name in *.tar.gz; do
            case $name in
            *.licenses.tar.gz | vulnerabilities.tar.gz) ;;
            *) [ ! -f "$name" ] || archives+=("$name") ;;
            esac
        done
        [ "${#archives[@]}" != 0 ] || die "no bundle here; change to the folder that has it, or name it: cat $script.sh | sudo SEALIFT_BUNDLE=FILE bash -s"
        [ "${#archives[@]}" = 1 ] || die "more than one archive here: ${archives[*]}; name the bundle: cat $script.sh | sudo SEALIFT_BUNDLE=FILE bash -s"
        printf '%s' "${archives[0]}"
    fi
}

# download prints what a server answers. Whose certificate is of a CA that this host does not know yet, $SEALIFT_CA_CERT is for.
download() {
    if command -v curl >/dev/null; then
        curl -fsSL --retry 5 --connect-timeout 30 --speed-limit 1 --speed-time 30 ${SEALIFT_CA_CERT:+--cacert "$SEALIFT_CA_CERT"} "$1"
    else
        wget -q -t 5 -T 30 ${SEALIFT_CA_CERT:+--ca-certificate="$SEALIFT_CA_CERT"} -O - "$1"
    fi
}

# is_ours: whether $1 is the sealift that this script was made with.
is_ours() {
    printf '%s  %s\n' "$digest" "$1" | sha256sum --check --status 2>/dev/null
}

# check_room: ends with the reason if the file $1, of which a part is written, is not whole because its file system is full.
check_room() {
    local written device free mount
    written=$(wc -c <"$1")
    read -r device _ _ free _ mount < <(df -Pk "${1%/*}" | tail -n 1) || return 0
    free=$((written + free * 1024))
    [ "$free" -ge "$size" ] ||
        status=3 die "no space left for /var/lib/sealift, which is on $mount ($device): sealift needs $((size / 1000000 + 1)) MB there, and $((free / 1000000)) MB are free; free some, or mount a larger disk there"
}

# take_binary: the sealift of the bundle $1, or if that is empty the node's own, from an earlier run, or that of the server.
take_binary() {
    if [ -z "$1" ] && is_ours "$node_binary"; then
        cat "$node_binary"
    elif [ -z "$1" ]; then
        download "$archive" | tar xzf - -O "$program"
    elif [ -d "${1%%:*}" ]; then # of a list of folders, the first one has it
        cat "${1%%:*}/$program"
    else
        # by its standard input: GNU tar takes what is before a colon in a name for a host
        local once=()
        ! tar --version 2>/dev/null | grep -q GNU || once=(--occurrence=1) # elsewhere the whole archive is read
        tar xzf - "${once[@]}" -O "$program" <"$1"
    fi
}

# resume_command: how to run this script once more. $1 is its bundle, empty when it needs none.
resume_command() {
    local bundle=$1
    shift
    if [ -z "$bundle" ] && [ -n "$url" ]; then
        printf 'curl -fsSL '
        [ -z "${SEALIFT_CA_CERT:-}" ] || printf -- '--cacert %q ' "$SEALIFT_CA_CERT"
        printf '%s/%s.sh | sudo ' "$url" "$command"
        [ -z "${SEALIFT_CA_CERT:-}" ] || printf 'SEALIFT_CA_CERT=%q ' "$SEALIFT_CA_CERT"
        [ "$command" != join ] || printf 'SEALIFT_TOKEN=TOKEN '
        printf 'bash -s --'
    else
        printf 'cd %q && cat %s.sh | sudo ' "$PWD" "$script"
        [ "$command" != join ] || printf 'SEALIFT_TOKEN=TOKEN '
        [ -z "${SEALIFT_BUNDLE:-}" ] || printf 'SEALIFT_BUNDLE=%q ' "$SEALIFT_BUNDLE"
        printf 'bash -s'
    fi
    [ $# = 0 ] || printf ' %q' "$@"
}

# @TASKS@

main() {
    local bundle='' binary folder owner resume='' code=0 airgap='' given=() options=()
    [ "$(id -u)" = 0 ] || status=3 die "this changes packages and services; run it with sudo"
    choose_program
    if [ "$command" = tasks ]; then
        [ $# -gt 0 ] || status=2 die "say what to do, such as: bash -s reset; or load-images, join-token, generate-admin-user, print-registry-login, taint-primaries, set-kubeconfig-server"
        name_task "$@"
        set --
    fi
    while [ $# -gt 0 ]; do
        # secrets of a join go where other users of the host do not see them
        case "$command $1" in
        'join --token' | 'join --kubeadm-token' | 'join --cert-key' | 'join --certificate-key')
            set -- "$1=${2-}" "${@:3}"
            continue
            ;;
        'join kubeadm-token='* | 'join --kubeadm-token='* | 'join --token='*) export SEALIFT_TOKEN=${1#*=} ;;
        'join cert-key='* | 'join --cert-key='* | 'join --certificate-key='*) export SEALIFT_CERTIFICATE_KEY=${1#*=} ;;
        'join airgap') ;;
        *' airgap') airgap=1 given+=("$1") ;;
        *' yes') options+=(--yes) given+=("$1") ;;
        *) options+=("$1") given+=("$1") ;; # sealift knows what it means
        esac
        shift
    done
    case $script in
    tasks | join)
        # a node may have this sealift, and needs no bundle then
        [ -n "$archive$bundle" ] || is_ours "$node_binary" || bundle=$(find_bundle)
        ;;
    *) [ -n "$archive" ] && [ -z "$airgap" ] || bundle=$(find_bundle) ;;
    esac
    if [ "$script" != tasks ]; then
        if [ -n "$bundle" ]; then
            [ "$script" = join ] || options=(--bundle "$bundle" "${options[@]}") # who joins takes files from the control plane
        elif [ -n "$url" ]; then
            options=(--from "$url" "${options[@]}")
        fi
        resume=$(resume_command "$bundle" "${given[@]}")
    fi
    install -d -m 0700 /var/lib/sealift || status=3 die "$unwritable"
    # what an install that was killed left: the name begins with the number of its process
    for folder in /var/lib/sealift/.install-*; do
        owner=${folder#*.install-}
        kill -0 "${owner%%-*}" 2>/dev/null || rm -rf "$folder"
    done
    folder=$(mktemp -d -p /var/lib/sealift ".install-$$-XXXXXX") || status=3 die "$unwritable"
    # shellcheck disable=SC2064
    trap "rm -rf '$folder'; rmdir --ignore-fail-on-non-empty /var/lib/sealift 2>/dev/null || :" EXIT
    binary=$folder/sealift
    take_binary "$bundle" >"$binary" || {
        check_room "$binary"
        [ -n "$bundle" ] || die "$archive could not be downloaded; run the same command again"
        die "$bundle has no $program, or is damaged; copy it again"
    }
    is_ours "$binary" || {
        check_room "$binary"
        die "$program of ${bundle:-$archive} is not the one that this script was made with; copy the bundle again, or take the script again"
    }
    chmod 0700 "$binary"
    [ -x "$binary" ] || status=3 die "no program can be run from /var/lib/sealift: mount its file system without the option noexec"
    SEALIFT_RESUME=$resume "$binary" "$command" "${options[@]}" || code=$?
    exit "$code"
}

main "$@"
