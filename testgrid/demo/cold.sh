#!/usr/bin/env bash
# The README's commands as a stranger runs them: in a fresh clone of HEAD, on a bare Debian 12 with git, make and Go, with every
# cache empty. Whatever is green with a warm cache says nothing about such a machine.
#
#     cold.sh [demo] [test]        both, when none is named
#
# COLD_LAB names a lab cache to begin with, such as ~/.cache/sealift/lab: then only what else a bare machine lacks is seen.
#
# It needs root, debootstrap, slirp4netns and about 40 GB below COLD_DIR (default /var/tmp), and removes all that it made. It has
# a network namespace of its own, so that the lab of this machine may run hosts meanwhile.
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
    local root=$1 tries=0 began
    mount --bind "$root" "$root" # hosts of the lab need a root that is a mount point
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/run"
    shift
    until ip -4 route show default | grep -q tap0; do # slirp4netns makes the way out
        [ $((tries += 1)) -le 100 ] || {
            echo "slirp4netns gave the bare machine no network" >&2
            exit 1
        }
        sleep 0.1
    done
    # Containers and hosts of the lab enter the root of their mount namespace, which a chroot does not change.
    cd "$root"
    mkdir outside
    pivot_root . outside
    cd /
    umount --lazy /outside
    for command in "$@"; do
        printf '\n== make %s on a bare machine, %s\n' "$command" "$(date -u +%FT%TZ)"
        began=$SECONDS
        # Groups of hosts are named after the folder of the lab's state, and those of this machine are beside them.
        env -i HOME=/root TERM=dumb LANG=C.UTF-8 SEALIFT_LAB_STATE="/var/lib/$(basename "${root%/root}")" PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            ${GOPROXY:+GOPROXY="$GOPROXY"} ${HTTPS_PROXY:+HTTPS_PROXY="$HTTPS_PROXY"} ${HTTP_PROXY:+HTTP_PROXY="$HTTP_PROXY"} \
            bash -c "cd /root/sealift && make $command"
        printf '== make %s took %d s\n' "$command" $((SECONDS - began))
        [ "$command" != demo ] || (cd /root/sealift && testgrid/demo/demo.sh clean)
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
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" # the way out may be a proxy with a CA of its own
cp -a "$(go env GOROOT)" "$root/usr/local/go"
git clone -q . "$root/root/sealift"
git -C "$root/root/sealift" log -1 --format='commit %h: %s'
if [ "${COLD_LAB:-}" ]; then
    mkdir -p "$root/root/.cache/sealift"
    cp -a --reflink=auto "$COLD_LAB" "$root/root/.cache/sealift/lab"
fi
COLD_INSIDE=$root unshare --net --mount --pid --fork --kill-child "$0" "${commands[@]}" &
machine=$! # it ignores SIGTERM; all below it ends with it
until [ "$(readlink "/proc/$machine/ns/net" 2>/dev/null)" != "$(readlink /proc/self/ns/net)" ]; do
    sleep 0.1
done
slirp4netns --configure --mtu=65520 --disable-host-loopback "$machine" tap0 >"$work/network.log" 2>&1 &
network=$!
trap 'kill -KILL $machine $network 2>/dev/null || true; wait; rm -rf --one-file-system "$work"' EXIT
wait $machine
