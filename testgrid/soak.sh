#!/usr/bin/env bash
# Runs all tests $TIMES times in a row while as many loops as there are cores keep the machine busy, and prints how each run ended and
# how long it took. Nothing comes from a cache. Stops at the first run that fails, prints what failed, and exits 1. $SIDE_BY_SIDE packages
# are tested at once, as many as there are cores where it is not set.
#
#     testgrid/soak.sh [PACKAGE...]      only these packages
#
# What a run printed is in bin/soak/N.log.
set -euo pipefail

cd "$(dirname "$0")/.."
logs=$PWD/bin/soak
mkdir -p "$logs"
packages=("$@")
[ $# -gt 0 ] || mapfile -t packages < <(go list ./testgrid/airgap ./cmd/sealift ./...)
load=()
trap 'kill "${load[@]}"' EXIT
for _ in $(seq "$(nproc)"); do
    (while :; do :; done) &
    load+=($!)
done
for i in $(seq "${TIMES:-5}"); do
    began=$SECONDS
    printf '[%d/%d] ' "$i" "${TIMES:-5}"
    if ! go test -vet=off -count=1 -p "${SIDE_BY_SIDE:-$(nproc)}" -timeout 90m "${packages[@]}" </dev/null >"$logs/$i.log" 2>&1; then
        printf 'FAILED %6d s\n' $((SECONDS - began))
        grep -E '^(FAIL|--- FAIL|panic:)' "$logs/$i.log" >&2
        exit 1
    fi
    printf 'ok     %6d s\n' $((SECONDS - began))
done
