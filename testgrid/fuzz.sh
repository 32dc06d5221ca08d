#!/usr/bin/env bash
# Fuzzes every parser for $FUZZTIME each, one after the other, and prints how often each was executed. Ends with 1 where a
# target failed, or was executed less than $FUZZ_LEAST times: that one is too slow to find anything.
#
#     testgrid/fuzz.sh [PATTERN]      only targets whose names match, as grep -E does
set -eu

least=${FUZZ_LEAST:-10000}
# Some parsers read files: in memory, so that the disk does not bound how often. Compilers keep to theirs.
export GOTMPDIR=${GOTMPDIR:-${TMPDIR:-/tmp}}
TMPDIR=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
log=$TMPDIR/log
code=0

printf '%-28s %-36s %12s\n' PACKAGE TARGET EXECUTIONS
while IFS=: read -r file target; do
    printf '%-28s %-36s ' "$(dirname "$file")" "$target"
    # An input that is new is kept as it is: making each smaller first takes most of the time.
    if ! go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-60s}" -fuzzminimizetime 1x >"$log" 2>&1; then
        printf '%12s\n' FAILED
        cat "$log" >&2
        code=1
        continue
    fi
    executions=$(sed -nE 's/.*execs: ([0-9]+).*/\1/p' "$log" | tail -n 1)
    printf '%12s' "${executions:-0}"
    if [ "${executions:-0}" -lt "$least" ]; then
        printf '  less than %s' "$least"
        code=1
    fi
    echo
done < <(grep -rE '^func Fuzz' --include='*_test.go' . | sed -nE 's|^\./([^:]*):func (Fuzz[A-Za-z0-9]*).*|\1:\2|p' | grep -E "${1:-}" | sort)
exit "$code"
