# shellcheck shell=bash
# The long-lived shell of an install: all of it runs at the top level of one bash, since add-ons pass globals to one
# another. Go writes requests to descriptor 3 and reads what the shell says from descriptor 4. While a hook runs, the shell
# may ask Go for something (sealift_ask) and gets its answer on descriptor 5; descriptor 6 is the file that lets one ask at
# a time. All messages are fields ended by NUL.
exec </dev/null

sealift_failed_at=''
sealift_home=$PWD

# sealift_settle: what a hook may have changed of the shell itself is as it was before each call.
sealift_settle() {
    set -eE +ufx
    set +o pipefail
    shopt -u nullglob failglob dotglob nocasematch extglob
    IFS=$' \t\n'
    trap 'sealift_failed "$LINENO" "$BASH_COMMAND"' ERR
    trap 'sealift_exited "$?"' EXIT
    trap - DEBUG RETURN
    hash -r # a program that came since can be in an earlier folder of PATH
    cd "${DIR:-$sealift_home}"
}

# sealift_failed LINE COMMAND: notes where a command failed: in the script of an add-on, if one is on the stack.
sealift_failed() {
    local sealift_frame sealift_line=$1
    sealift_failed_at="$1: $2"
    for ((sealift_frame = 1; sealift_frame < ${#BASH_SOURCE[@]}; sealift_frame++)); do
        if [[ ${BASH_SOURCE[sealift_frame]} == /* ]]; then
            sealift_failed_at="${BASH_SOURCE[sealift_frame]}:$sealift_line: $2"
            return 0
        fi
        sealift_line=${BASH_LINENO[sealift_frame]}
    done
}

sealift_exited() { printf 'exit\0002\000%s\000%s\000' "$1" "$sealift_failed_at" >&4; }

# sealift_ask VERB [ARG…]: lets Go do it. Prints the answer, fails as Go did.
sealift_ask() {
    local sealift_status sealift_answer sealift_complaint sealift_turn
    exec {sealift_turn}>>/proc/self/fd/6
    flock "$sealift_turn"
    printf '%s\0' ask "$#" "$@" >&4
    IFS= read -r -d '' -u 5 sealift_status
    IFS= read -r -d '' -u 5 sealift_answer
    IFS= read -r -d '' -u 5 sealift_complaint
    exec {sealift_turn}>&-
    if [ -n "$sealift_complaint" ]; then
        printf '%s\n' "$sealift_complaint" >&2
    fi
    printf '%s' "$sealift_answer"
    return "$sealift_status"
}
