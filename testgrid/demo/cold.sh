#!/usr/bin/env bash
# The README's commands as a stranger runs them: in a fresh clone of HEAD, on a bare Debian 12 with git, make and Go, with every
# cache empty. Whatever is green with a warm cache says nothing about such a machine.
#
#     cold.sh [demo] [test]        both, when none is named
#
# It needs root, debootstrap and about 40 GB below COLD_DIR (default /var/tmp), and removes all that it made. The lab of this
# machine must not run any hosts: both use the same network.
set -euo pipefail
cd "$(dirname "$0")/../.."

commands=("$@")
[ $# -gt 0 ] || commands=(demo test)
for command in "${commands[@]}"; do
    [ "$command" = demo ] || [ "$command" = test ] || {
        echo "usage: cold.sh [demo] [test]" >&2
        exit 2
    }
done

# inside: what happens on the bare machine. Its mounts and processes end with it.
inside() {
    local root=$1 began
    mount -t proc proc "$root/proc"
    for folder in sys dev run; do
        mount --rbind "/$folder" "$root/$folder"
    done
    mount -t tmpfs tmpfs "$root/run"
    shift
    for command in "$@"; do
        printf '\n== make %s on a bare machine, %s\n' "$command" "$(date -u +%FT%TZ)"
        began=$SECONDS
        env -i HOME=/root TERM=dumb LANG=C.UTF-8 PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            ${GOPROXY:+GOPROXY="$GOPROXY"} ${HTTPS_PROXY:+HTTPS_PROXY="$HTTPS_PROXY"} ${HTTP_PROXY:+HTTP_PROXY="$HTTP_PROXY"} \
            chroot "$root" bash -c "cd /root/sealift && make $command"
        printf '== make %s took %d s\n' "$command" $((SECONDS - began))
        [ "$command" != demo ] || chroot "$root" bash -c 'cd /root/sealift && testgrid/demo/demo.sh clean'
    done
}

if [ "${COLD_INSIDE:-}" ]; then
    inside "$COLD_INSIDE" "$@"
    exit
fi

work=$(mktemp -d -p "${COLD_DIR:-/var/tmp}" sealift-cold-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
echo "a bare Debian 12 in $root"
debootstrap --variant=minbase --include=ca-certificates,git,make bookworm "$root" >"$work/debootstrap.log" 2>&1 || {
    tail -n 20 "$work/debootstrap.log" >&2
    exit 1
}
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" # the way out may be a proxy with a CA of its own
cp -a "$(go env GOROOT)" "$root/usr/local/go"
git clone -q . "$root/root/sealift"
git -C "$root/root/sealift" log -1 --format='commit %h: %s'
COLD_INSIDE=$root unshare --mount --pid --fork --kill-child "$0" "${commands[@]}"
