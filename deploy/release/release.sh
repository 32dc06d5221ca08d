#!/usr/bin/env bash
# Makes the files of a release in dist/: archives, .deb and .rpm of the command line, container images, a bill of materials, digests, and
# install.sh. docs/releasing.md lists them.
#
#     deploy/release/release.sh VERSION      such as v0.1.0
#
# PLATFORMS are linux/amd64 and linux/arm64 where it is not set. IMAGES=no leaves the images out. SEALIFT_RELEASE_KEY names the private key
# that signs SHA256SUMS, as 'sealift key generate' makes it, and SEALIFT_KEY_PASSPHRASE has its passphrase; without, nothing is signed.
# SEALIFT_RELEASE_URL is where people will find the files.
set -euo pipefail
cd "$(dirname "$0")/../.."

NFPM=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
version=${1:-}
[[ $version =~ ^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$ ]] || {
    echo "usage: release.sh VERSION; a version is v1.2.3 or v1.2.3-rc.1, as semver has it" >&2
    exit 2
}
read -ra platforms <<<"${PLATFORMS:-linux/amd64 linux/arm64}"
url=${SEALIFT_RELEASE_URL:-https://github.com/sealift/sealift/releases/download/$version}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
dist=$PWD/dist
host=$(go env GOHOSTARCH)
rm -rf "$dist"
mkdir -p "$dist/tree"


build() { # ARCHITECTURE OUT PACKAGES...: programs that know their version
    GOARCH=$1 go build -ldflags "-s -w -X github.com/sealift/sealift/cli/app.version=$version" -o "$2" "${@:3}"
}
tree_of() { echo "$dist/tree/sealift-$version-linux-$1"; }

for platform in "${platforms[@]}"; do
    arch=${platform#linux/}
    echo "programs for $platform"
    mkdir -p "$(tree_of "$arch")/lib/sealift"
    build "$arch" "$(tree_of "$arch")/lib/sealift/" ./cmd/...
done

echo "man pages and completions"
tools=$(tree_of "$host")/lib/sealift
[ -x "$tools/sealift" ] || {
    tools=$dist/tree/tools
    mkdir -p "$tools"
    build "$host" "$tools/" ./cmd/sealift ./cmd/sealift-controller ./cmd/sealift-testgrid
}
share=$dist/tree/share
mkdir -p "$share"/{man/man1,bash-completion/completions,fish/vendor_completions.d,zsh/site-functions,doc/sealift}
for program in sealift sealift-controller sealift-testgrid; do
    "$tools/$program" man --out "$share/man/man1"
done
gzip -n9 "$share"/man/man1/*.1
"$tools/sealift" completion bash >"$share/bash-completion/completions/sealift"
"$tools/sealift" completion fish >"$share/fish/vendor_completions.d/sealift.fish"
"$tools/sealift" completion zsh >"$share/zsh/site-functions/_sealift"
cp LICENSE CHANGELOG.md "$share/doc/sealift/"
chmod -R u=rwX,go=rX "$dist/tree"

for platform in "${platforms[@]}"; do
    arch=${platform#linux/}
    tree=$(tree_of "$arch")
    echo "packages for $platform"
    cp -R "$share" "$tree/share"
    find "$tree" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
    tar -C "$dist/tree" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$(basename "$tree")" |
        gzip -n >"$dist/$(basename "$tree").tar.gz"
    sed "s|@ARCH@|$arch|; s|@VERSION@|$version|; s|@TREE@|$tree|" deploy/release/nfpm.yaml >"$dist/tree/nfpm.yaml"
    for packager in deb rpm; do
        go run "$NFPM" package --config "$dist/tree/nfpm.yaml" --packager "$packager" --target "$dist/"
    done
done

echo "bill of materials"
go run ./deploy/release sbom "$version" "$dist/sealift-$version.spdx.json" "$dist"/tree/sealift-"$version"-linux-*/lib/sealift/*

if [ "${IMAGES:-yes}" != no ]; then
    for platform in "${platforms[@]}"; do
        echo "images for $platform"
        programs=$(tree_of "${platform#linux/}")/lib/sealift
        for image in sealift sealift-testgrid; do
            testgrid=
            [ "$image" = sealift ] || testgrid=$programs/sealift-testgrid
            go run ./deploy/image -arch "${platform#linux/}" -binary "$programs/sealift" -node "$programs/sealift-node" ${testgrid:+-testgrid "$testgrid"} \
                -out "$dist/$image-$version-linux-${platform#linux/}.oci.tar"
        done
    done
fi

echo "digests"
archives=$(cd "$dist" && sha256sum sealift-"$version"-linux-*.tar.gz)
script=$(<deploy/release/install.sh)
script=${script//@VERSION@/"$version"}
script=${script//@URL@/"$url"}
printf '%s\n' "${script//@DIGESTS@/"$archives"}" >"$dist/install.sh"
rm -rf "$dist/tree"
(cd "$dist" && sha256sum -- * >SHA256SUMS)
if [ "${SEALIFT_RELEASE_KEY:-}" ]; then
    go run ./deploy/release sign "$SEALIFT_RELEASE_KEY" "$dist/SHA256SUMS"
else
    echo "nothing is signed: SEALIFT_RELEASE_KEY names no key"
fi
(cd "$dist" && ls -l)
