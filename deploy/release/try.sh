#!/usr/bin/env bash
# Tries the files of a release in dist/ as a stranger uses them, on a bare Debian 12 that debootstrap makes, without a network: apt installs
# the .deb, its command line builds the README's first try, and apt removes it. rpm installs the .rpm into a folder, and install.sh installs
# the archive. The programs of other platforms do the first try in an emulator, if qemu-user-static is installed.
#
#     deploy/release/try.sh [DIST]
#
# SEALIFT_RELEASE_PUB names the public key for the signature; without, it is not checked. The script needs root, debootstrap and rpm, and
# openssl for the signature. It removes all that it made.
set -euo pipefail
cd "$(dirname "$0")/../.."
dist=$(realpath "${1:-dist}")
arch=$(dpkg --print-architecture)

(cd "$dist" && sha256sum --quiet -c SHA256SUMS)
work=$(mktemp -d -p "${TRY_DIR:-/var/tmp}" sealift-try-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
if [ -n "${SEALIFT_RELEASE_PUB:-}" ]; then
    echo "== the signature"
    base64 -d "$dist/SHA256SUMS.sig" >"$work/signature"
    openssl dgst -sha256 -verify "$SEALIFT_RELEASE_PUB" -signature "$work/signature" "$dist/SHA256SUMS"
    sh "$dist/install.sh" --from "$dist" --key "$SEALIFT_RELEASE_PUB" --prefix "$work/prefix"
fi
root=$work/root
echo "== a bare Debian 12"
debootstrap --variant=minbase bookworm "$root" >"$work/debootstrap.log" 2>&1 || {
    tail -n 20 "$work/debootstrap.log" >&2
    exit 1
}
cp "$dist"/sealift_*_"$arch".deb "$root/root/sealift.deb"
mkdir "$root/root/release"
cp "$dist"/install.sh "$dist"/SHA256SUMS* "$dist"/sealift-v*-linux-"$arch".tar.gz "$root/root/release/"

# The commands of the README's first try, and its Installer.
awk '
    /^## / { in_try = $0 == "## A first try" }
    !in_try { next }
    /^```/ { block = block ? "" : substr($0, 4) "-"; if (!block && file) { print "END_OF_FILE"; file = 0 }; next }
    block == "yaml-" && !file { file = 1; print "cat >" $2 " <<\"END_OF_FILE\"" }
    block == "yaml-" { print }
    block == "console-" && /^\$ / { print substr($0, 3) }
' README.md >"$root/root/first-try.sh"
[ "$(wc -l <"$root/root/first-try.sh")" -gt 15 ] || {
    echo "the README has no first try any more" >&2
    exit 1
}
cat >"$root/root/try.sh" <<'INSIDE'
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
cd /root
echo "== apt install ./sealift.deb"
apt-get install -y -qq ./sealift.deb
sealift version
sealift fleet --help | head -n 1
sealift testgrid --help | head -n 1
gzip -dc /usr/share/man/man1/sealift-bundle.1.gz | grep -q 'sealift-bundle'
ls /usr/share/man/man1/sealift* | wc -l | sed 's/$/ man pages/'
bash -c 'source /usr/share/bash-completion/completions/sealift && complete -p sealift'
echo "== the README's first try"
mkdir first-try
(cd first-try && bash -eux ../first-try.sh)
echo "== apt remove sealift"
apt-get remove -y -qq sealift
! ls -d /usr/bin/sealift /usr/lib/sealift 2>/dev/null
echo "== install.sh"
sh release/install.sh --from release
hash -r
sealift version
INSIDE
echo "no network from here on"
# shellcheck disable=SC2016 # the shell inside expands them
unshare --net --mount --pid --fork --kill-child bash -euc 'mount -t proc proc "$1/proc"; mount -t devpts devpts "$1/dev/pts"; chroot "$1" env -i HOME=/root TERM=dumb \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash /root/try.sh' - "$root"
echo "== the .rpm"
rpm=$(ls "$dist"/sealift-*."$(uname -m)".rpm)
rpm -qp --requires "$rpm"
rpm --root "$work/rpm" --initdb
rpm --root "$work/rpm" -i --noscripts "$rpm"
rpm --root "$work/rpm" -V sealift
"$work/rpm/usr/bin/sealift" version
for deb in "$dist"/sealift_*.deb; do
    other=$(dpkg-deb --field "$deb" Architecture)
    [ "$other" != "$arch" ] || continue
    echo "== the .deb for $other"
    machine=$([ "$other" = arm64 ] && echo aarch64 || echo x86_64)
    emulator=$(command -v "qemu-$machine-static" || true)
    [ -n "$emulator" ] || {
        echo "not tried: qemu-user-static is not installed"
        continue
    }
    dpkg-deb --extract "$deb" "$work/$other"
    mkdir "$work/$other/path" "$work/$other/first-try"
    printf '#!/bin/sh\nexec %s %s/usr/lib/sealift/sealift "$@"\n' "$emulator" "$work/$other" >"$work/$other/path/sealift"
    chmod +x "$work/$other/path/sealift"
    (cd "$work/$other/first-try" && PATH=$work/$other/path:$PATH && sealift version && bash -eux "$root/root/first-try.sh")
done
echo "== all of it works"
