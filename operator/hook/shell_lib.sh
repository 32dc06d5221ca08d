#!/bin/bash
# Library for hooks in bash. A hook sources it, defines functions with the names of its events, and ends with:
#
#     hook::run "$@"
#
# From here on a hook ends at the first command that fails, also one in a pipe or in $(…), at a variable that is not set, and
# at a pattern that matches no file. It then prints where. Turn one of these off where it is not wanted: shopt -u failglob.
#
# The functions are in the files below frameworks/shell, beside this file and at the root. An image may add files there.
# Needs bash 4.4, coreutils and jq.

set -Eeuo pipefail

# backtrace prints the lines of the hook that led to the command that failed.
backtrace() {
    local status=$? frame file line
    [[ ${FUNCNAME[1]:-} != hook::_run_first_available_handler ]] || return 0 # the subshell of the handler has printed it
    echo "Traceback (most recent call last):" >&2
    for ((frame = ${#FUNCNAME[@]} - 1; frame > 0; frame--)); do
        [[ ${FUNCNAME[frame]} != hook::* ]] || continue
        file=${BASH_SOURCE[frame]} line=${BASH_LINENO[frame - 1]}
        printf '  File "%s", line %d, in %s\n' "$file" "$line" "${FUNCNAME[frame]}" >&2
        sed -n "${line}s/^[[:space:]]*/    /p" "$file" >&2 2>/dev/null || true # the hook may have left the folder of a relative path
    done
    printf 'Exit status %d\n' "$status" >&2
}
trap backtrace ERR

# shell_lib::files prints the files below frameworks/shell: those beside this file, then those at the root.
shell_lib::files() {
    local dir file
    shopt -u failglob
    shopt -s globstar
    dir=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
    for dir in "${dir%/}" ""; do
        for file in "$dir"/frameworks/shell/**/*.sh; do
            [[ ! -f $file ]] || echo "$file"
        done
        [[ -n $dir ]] || return 0
    done
}
mapfile -t SHELL_LIB_FILES <<<"$(shell_lib::files)"
for SHELL_LIB_FILE in "${SHELL_LIB_FILES[@]}"; do
    # shellcheck disable=SC1090 # which files there are is up to the image
    source "$SHELL_LIB_FILE"
done
unset SHELL_LIB_FILE SHELL_LIB_FILES
shopt -s inherit_errexit failglob
