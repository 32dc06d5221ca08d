#!/usr/bin/env bash
# Runs what takes too long for every commit (the tests in files with the build tag grid), each in a process of its own, and prints
# how each ended and how long it took. A test that fails does not stop the others. Exits 1 if one failed.
#
#     testgrid/grid.sh [PATTERN]      only tests whose names match, as grep -E does
#
# What a test printed is in bin/grid/TEST.log. All together take several hours; each has an end of its own, after $GRID_TIMEOUT.
set -euo pipefail

cd "$(dirname "$0")/.."
top=$PWD
logs=$top/bin/grid
mkdir -p "$logs"
code=0

# run runs the test $2 of the package $1.
run() {
    local program
    program=$logs/$(tr / - <<<"$1").test
    [ "$program" -nt "$logs/.began" ] || go test -tags grid,grpcnotrace -c -o "$program" "./$1" || return
    (cd "$1" && "$program" -test.run "^$2\$" -test.v -test.timeout "${GRID_TIMEOUT:-90m}") </dev/null >"$logs/$2.log" 2>&1
}

touch "$logs/.began"
mapfile -t tests < <(grep -rl '^//go:build grid' --include='*_test.go' . |
    xargs grep -oE '^func Test[A-Za-z0-9_]+' | sed -E 's|^\./(.*)/[^/]*:func |\1 |' | grep -E "${1:-}" | sort)
for i in "${!tests[@]}"; do
    read -r package name <<<"${tests[i]}"
    began=$SECONDS
    printf '[%2d/%d] %-50s ' $((i + 1)) ${#tests[@]} "$name"
    if run "$package" "$name"; then
        result=$(grep -qE "^--- SKIP: $name " "$logs/$name.log" && echo skipped || echo ok)
    else
        result=FAILED
        code=1
    fi
    printf '%-8s %6d s\n' "$result" $((SECONDS - began))
    [ "$result" != FAILED ] || grep -vE '^=== ' "$logs/$name.log" | tail -n 20 >&2
done
rm -f "$logs"/*.test "$logs/.began"
exit $code
