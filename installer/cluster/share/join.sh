#!/usr/bin/env bash
# Makes this host a node of the cluster that has the control plane @HOST@. A control plane prints the command that fetches and
# checks this script: sealift token create. The token comes on stdin, or as kubeadm-token=TOKEN.
#
# It takes sealift from the control plane, checks it, and starts it.
set -eu

host='@HOST@'
port='@PORT@'
server=$host:$port
case $host in *:*) server="[$host]:$port" ;; esac # IPv6
program='' # where the control plane has the sealift for this host; choose_program sets it
digest=''
size='' # in bytes
ca_hash='@CA_HASH@'
ca='@CA@'
unwritable='nothing can be written below /var/lib/sealift: mount its file system for writing, or free space on it'

die() {
    printf 'join.sh: %s\n' "$*" >&2
    exit "${status:-1}"
}

# choose_program: ends unless there is a sealift for this host.
choose_program() {
    local machine
    machine=$(uname -s -m)
    case $machine in
    # @PROGRAMS@
    esac
    [ -n "$program" ] || status=3 die "this host is $machine, the cluster's bundle is for @PLATFORMS@"
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

# fetch FILE: takes sealift from the control plane, which is given up when it falls silent. Without a program for TLS the digest
# alone has to do. It fails if sealift does not come whole.
fetch() {
    if command -v curl >/dev/null; then
        curl -fsS --connect-timeout 60 --speed-limit 1 --speed-time 60 --cacert <(printf '%s\n' "$ca") "https://$server$program" >"$1"
        return
    fi
    local line size='' got
    exec 3<>"/dev/tcp/$host/$port"
    printf 'GET %s HTTP/1.0\r\n\r\n' "$program" >&3
    while IFS= read -r -t 60 line <&3 && [ "$line" != $'\r' ]; do
        case $line in [Cc]ontent-[Ll]ength:*) size=${line//[^0-9]/} ;; esac
    done
    timeout 600 cat <&3 >"$1"
    exec 3<&-
    got=$(wc -c <"$1")
    [ "$got" = "$size" ] || {
        printf 'join.sh: %s of %s bytes of sealift arrived\n' "$got" "${size:-unknown}" >&2
        return 1
    }
}

# resume_command: how to run this script once more, with words in place of the secrets. A script that came with a command is in no file.
resume_command() {
    local secrets=TOKEN role='' word words=()
    for word in "$@"; do
        if [ "${word#--}" = control-plane ]; then
            secrets="'TOKEN KEY'" role=' --control-plane'
        else
            words+=("$word")
        fi
    done
    if [ -n "${BASH_EXECUTION_STRING-}" ]; then
        printf "the command of 'sealift token create%s'" "$role"
        [ ${#words[@]} = 0 ] || printf ', and behind it:%s' "$(printf ' %q' "${words[@]}")"
        return
    fi
    printf 'echo %s | sudo bash %q' "$secrets" "$(readlink -f "$0")"
    [ $# = 0 ] || printf ' %q' "$@"
}

main() {
    local binary folder owner resume code=0 options=()
    while [ $# -gt 0 ]; do
        case $1 in
        --token | --kubeadm-token | --cert-key | --certificate-key)
            set -- "$1=${2-}" "${@:3}"
            continue
            ;;
        kubeadm-token=* | --kubeadm-token=* | --token=*) export SEALIFT_TOKEN=${1#*=} ;;
        cert-key=* | --cert-key=* | --certificate-key=*) export SEALIFT_CERTIFICATE_KEY=${1#*=} ;;
        *) options+=("$1") ;;
        esac
        shift
    done
    [ "$(id -u)" = 0 ] || status=3 die "a join changes packages and services; run it as root"
    choose_program
    install -d -m 0700 /var/lib/sealift || status=3 die "$unwritable"
    # what a join that was killed left: the name begins with the number of its process
    for folder in /var/lib/sealift/.install-*; do
        owner=${folder#*.install-}
        kill -0 "${owner%%-*}" 2>/dev/null || rm -rf "$folder"
    done
    folder=$(mktemp -d -p /var/lib/sealift ".install-$$-XXXXXX") || status=3 die "$unwritable"
    # shellcheck disable=SC2064
    trap "rm -rf '$folder'; rmdir --ignore-fail-on-non-empty /var/lib/sealift 2>/dev/null || :" EXIT
    binary=$folder/sealift
    fetch "$binary" || {
        check_room "$binary"
        die "cannot fetch all of sealift from $server; run the command again, or see there: systemctl status sealift-node"
    }
    printf '%s  %s\n' "$digest" "$binary" | sha256sum --check --status ||
        die "$host did not send the sealift that this script was made with; get a new command from: sealift token create"
    chmod 0700 "$binary"
    [ -x "$binary" ] || status=3 die "no program can be run from /var/lib/sealift: mount its file system without the option noexec"
    resume=$(resume_command ${options[@]+"${options[@]}"})
    SEALIFT_RESUME=$resume "$binary" join --server "$server" --ca-hash "$ca_hash" ${options[@]+"${options[@]}"} || code=$?
    exit "$code"
}

main "$@"
# end of join.sh
