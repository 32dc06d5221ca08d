#!/usr/bin/env bash
# Fuzzes every parser for $FUZZTIME each, one after the other, and prints how often each was executed, and in which time. Exits 1
# if a target failed, or was executed less than $FUZZ_LEAST times: such a target is too slow to find anything.
#
#     testgrid/fuzz.sh [PATTERN]      only targets whose names match, as grep -E does
set -eu

cd "$(dirname "$0")/.."
least=${FUZZ_LEAST:-10000}
# Some parsers read files: in memory, so that the disk does not bound how often. Compilers keep to theirs.
export GOTMPDIR=${GOTMPDIR:-${TMPDIR:-/tmp}}
TMPDIR=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
log=$TMPDIR/log
code=0

# fuzz runs the target $2 of the package $1.
fuzz() {
    # Go shall not minimize new inputs. In large packages that takes most of the time: coverage that varies from run to run
    # makes Go minimize the same inputs again and again.
    go test "./$1" -run '^$' -fuzz "^$2\$" -fuzztime "${FUZZTIME:-60s}" -fuzzminimizetime 0x </dev/null >"$log" 2>&1 && return
    # On a busy machine Go may report the end of the time as a failure. It writes down every input that really fails.
    grep -q '^ *context deadline exceeded$' "$log" && ! grep -q 'Failing input' "$log"
}

printf '%-28s %-36s %12s %8s\n' PACKAGE TARGET EXECUTIONS TIME
while IFS=: read -r file target; do
    printf '%-28s %-36s ' "$(dirname "$file")" "$target"
    if ! fuzz "$(dirname "$file")" "$target"; then
        printf '%12s\n' FAILED
        cat "$log" >&2
        code=1
        continue
    fi
    # Go counts the time without compiling.
    read -r time executions < <(sed -nE 's/.*elapsed: ([^,]+), execs: ([0-9]+).*/\1 \2/p' "$log" | tail -n 1) || true
    printf '%12s %8s' "${executions:=0}" "${time:=0s}"
    if [ "$executions" -lt "$least" ]; then
        printf '  less than %s' "$least"
        code=1
    fi
    echo
done < <(grep -rE '^func Fuzz' --include='*_test.go' . | sed -nE 's|^\./([^:]*):func (Fuzz[A-Za-z0-9]*).*|\1:\2|p' | grep -E "${1:-}" | sort)
exit "$code"
