#!/usr/bin/env bash
# Makes a release and tries its files: release.sh and try.sh. Where SEALIFT_RELEASE_KEY names no key, one is made for this run; else
# SEALIFT_RELEASE_PUB names its public key.
#
#     deploy/release/dryrun.sh VERSION
#
# It needs root, and what try.sh needs.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ -z "${SEALIFT_RELEASE_KEY:-}" ]; then
    keys=$(mktemp -d)
    trap 'rm -rf "$keys"' EXIT
    export SEALIFT_RELEASE_KEY=$keys/release.key SEALIFT_RELEASE_PUB=$keys/release.pub
    openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$SEALIFT_RELEASE_KEY"
    openssl pkey -in "$SEALIFT_RELEASE_KEY" -pubout -out "$SEALIFT_RELEASE_PUB"
fi
deploy/release/release.sh "$@"
deploy/release/try.sh
