#!/bin/sh
# Installs the sealift command line of one release on a machine where packages and bundles are made:
#
#     curl -fsSLO URL/install.sh
#     sudo sh install.sh [--prefix DIR] [--from DIR|URL] [--key FILE]
#
# The archive is checked against the digest that this script was released with. With --key, the public key of the project, the signature
# of SHA256SUMS is checked first, by openssl. --from takes the files of the release from a folder or a mirror. Nothing is changed before
# the checks.
set -eu

version='@VERSION@'
from='@URL@'
digests='@DIGESTS@'
prefix=/usr/local
key=

die() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case "$1" in
    --prefix | --from | --key)
        [ $# -gt 1 ] || die "$1 needs a value"
        case "$1" in
        --prefix) prefix=$2 ;;
        --from) from=$2 ;;
        --key) key=$2 ;;
        esac
        shift 2
        ;;
    *) die "unknown argument $1; the usage is: sh install.sh [--prefix DIR] [--from DIR|URL] [--key FILE]" ;;
    esac
done

case "$(uname -s) $(uname -m)" in
'Linux x86_64') platform=linux-amd64 ;;
'Linux aarch64') platform=linux-arm64 ;;
*) die "there is no release for $(uname -s) $(uname -m), only for Linux on x86_64 and aarch64" ;;
esac
archive=sealift-$version-$platform.tar.gz

work=$(mktemp -d) || die "cannot make a folder below ${TMPDIR:-/tmp}; free some space there, or set TMPDIR to another folder"
trap 'rm -rf "$work"' EXIT

# check_room: ends with the reason if next to nothing is free on the file system of $1. $2 is how to choose another folder.
check_room() {
    free=$(df -Pk "$1" | awk 'END { print $4 }')
    needs=
    [ ! -d "${tree:-}" ] || needs=": sealift needs $(du -sk "$tree" | awk '{ print int($1 / 1000) + 1 }') MB there"
    [ "$free" -ge 1024 ] || {
        rm -rf "$prefix/lib/sealift.new"
        die "no space left on $(df -Pk "$1" | awk 'END { print $6 }'), where $1 is$needs; free some, or choose another folder with $2"
    }
}

# fetch: puts the file $1 of the release into $work.
fetch() {
    case "$from" in
    http://* | https://*)
        if command -v curl >/dev/null; then
            curl -fsSL --retry 5 --connect-timeout 30 --speed-limit 1 --speed-time 30 -o "$work/$1" "$from/$1"
        else
            wget -q -t 5 -T 30 -O "$work/$1" "$from/$1"
        fi
        ;;
    *) cp "$from/$1" "$work/$1" ;;
    esac || {
        check_room "$work" TMPDIR
        die "cannot read $from/$1"
    }
}

if [ -n "$key" ]; then
    command -v openssl >/dev/null || die "--key needs openssl; install it, or check the signature elsewhere with cosign verify-blob"
    fetch SHA256SUMS
    fetch SHA256SUMS.sig
    base64 -d "$work/SHA256SUMS.sig" >"$work/signature" || die "SHA256SUMS.sig is damaged; nothing was changed"
    openssl dgst -sha256 -verify "$key" -signature "$work/signature" "$work/SHA256SUMS" >/dev/null ||
        die "SHA256SUMS is not signed with $key; nothing was changed"
    digests=$(cat "$work/SHA256SUMS")
fi
digest=$(printf '%s\n' "$digests" | awk -v name="$archive" '$2 == name { print $1 }')
[ -n "$digest" ] || die "$version has no $archive"
fetch "$archive"
printf '%s  %s\n' "$digest" "$work/$archive" | sha256sum -c >/dev/null 2>&1 ||
    die "$from/$archive is damaged or was changed: its sha256 is not $digest; nothing was changed"

program=$prefix/bin/sealift
target=../lib/sealift/sealift
if [ -e "$program" ] && [ "$(readlink "$program")" != "$target" ]; then
    die "$program is not of this script; a node of a cluster has its own there. Choose another folder with --prefix"
fi
tar -xzf "$work/$archive" -C "$work" || {
    check_room "$work" TMPDIR
    die "cannot unpack $archive below $work; nothing was changed"
}
mkdir -p "$prefix/bin" "$prefix/lib" "$prefix/share" || die "cannot write below $prefix; run it with sudo, or choose another folder with --prefix"
tree=$work/sealift-$version-$platform
rm -rf "$prefix/lib/sealift.new" "$prefix/lib/sealift.old"
cp -R "$tree/lib/sealift" "$prefix/lib/sealift.new" || {
    check_room "$prefix/lib" --prefix
    rm -rf "$prefix/lib/sealift.new"
    die "cannot write below $prefix/lib; nothing was changed"
}
[ ! -e "$prefix/lib/sealift" ] || mv "$prefix/lib/sealift" "$prefix/lib/sealift.old"
mv "$prefix/lib/sealift.new" "$prefix/lib/sealift"
rm -rf "$prefix/lib/sealift.old"
cp -R "$tree/share/." "$prefix/share/" || {
    check_room "$prefix/share" --prefix
    die "cannot write below $prefix/share; the program is installed, its documentation is not"
}
ln -sfn "$target" "$program"
"$program" version
