#!/bin/bash
# Library for hooks in bash. A hook sources it, defines functions with the names of its events, and ends with:
#
#     hook::run "$@"
#
# With --config, __config__ is called. Otherwise the first function that exists is called for each binding context, in a
# subshell, with the context at hand for the functions context::*:
#
#     __on_startup
#     __on_kubernetes::<binding>::synchronization, ::added, ::added_or_modified, ::modified, ::deleted
#     __on_kubernetes::<binding>
#     __on_schedule::<binding>        __on_group::<group>
#     __on_validating::<binding>      __on_mutating::<binding>
#     __on_conversion::<binding>::<from>::<to>, __on_conversion::<binding>
#     __main__
#
# It needs bash and jq.

# context::global::jq runs jq on all binding contexts, context::jq on the current one.
context::global::jq() { jq "$@" "$BINDING_CONTEXT_PATH"; }
context::jq() { context::global::jq ".[${BINDING_CONTEXT_CURRENT_INDEX:-0}]" | jq "$@"; }

# context::_path turns a.b.c into the jq path .["a"]["b"]["c"], and takes over one that begins with a dot.
context::_path() {
    if [[ $1 == .* ]]; then
        printf '%s' "$1"
    else
        printf '.["%s"]' "${1//./\"][\"}"
    fi
}

# context::get prints a value of the current context: text as it is, everything else as JSON.
context::get() { context::jq -r "$(context::_path "$1")"; }

# context::has says whether the current context has a key, even if its value is null.
context::has() {
    # shellcheck disable=SC2016 # the variables are jq's
    context::jq -e --arg path "$1" '
        . as $context | ($path | ltrimstr(".") | split(".")) as $keys
        | reduce $keys[] as $key ([true, $context];
            if .[0] and (.[1] | type == "object" and has($key)) then [true, .[1][$key]] else [false, null] end)
        | .[0]' >/dev/null
}

context::is_true() { context::jq -e "$(context::_path "$1") == true" >/dev/null; }
context::is_false() { context::jq -e "$(context::_path "$1") == false" >/dev/null; }
context::is_null() { context::jq -e "$(context::_path "$1") == null" >/dev/null; }

# hook::_plan prints a line for each binding context: its binding, and the names of the functions for it, the best first.
hook::_plan() {
    # shellcheck disable=SC2016 # the variables are jq's
    context::global::jq -r '
        .[] | (.binding // "") as $binding
        | "__on_kubernetes::\($binding)" as $kubernetes
        | (if $binding == "onStartup" then ["__on_startup"]
           elif .type == "Group" then ["__on_group::\(.groupName // $binding)"]
           elif .type == "Schedule" then ["__on_schedule::\($binding)"]
           elif .type == "Synchronization" then ["\($kubernetes)::synchronization", $kubernetes]
           elif .type == "Event" and .watchEvent == "Added" then ["\($kubernetes)::added", "\($kubernetes)::added_or_modified", $kubernetes]
           elif .type == "Event" and .watchEvent == "Modified" then ["\($kubernetes)::modified", "\($kubernetes)::added_or_modified", $kubernetes]
           elif .type == "Event" then ["\($kubernetes)::deleted", $kubernetes]
           elif .type == "Validating" then ["__on_validating::\($binding)"]
           elif .type == "Mutating" then ["__on_mutating::\($binding)"]
           elif .type == "Conversion" then ["__on_conversion::\($binding)::\(.fromVersion)::\(.toVersion)", "__on_conversion::\($binding)"]
           else [] end) + ["__main__"]
        | [$binding] + . | @tsv'
}

# hook::_one calls the first of these functions that exists.
hook::_one() {
    local handler
    for handler in "$@"; do
        if [[ $(type -t "$handler") == function ]]; then
            # A subshell, so that nothing is left for the next context. Not after || or if: set -e works in it.
            ("$handler")
            return
        fi
    done
    echo "no function for this binding context; define one of: $*" >&2
    return 1
}

hook::run() {
    if [[ ${1:-} == --config ]]; then
        __config__
        exit
    fi
    local plan lines line parts status
    plan=$(hook::_plan) || exit
    mapfile -t lines <<<"$plan"
    export BINDING_CONTEXT_CURRENT_INDEX BINDING_CONTEXT_CURRENT_BINDING
    for ((line = 0; line < ${#lines[@]}; line++)); do
        [[ -n ${lines[line]} ]] || continue
        IFS=$'\t' read -ra parts <<<"${lines[line]}"
        BINDING_CONTEXT_CURRENT_INDEX=$line
        BINDING_CONTEXT_CURRENT_BINDING=${parts[0]}
        hook::_one "${parts[@]:1}"
        status=$?
        [[ $status == 0 ]] || exit "$status"
    done
}
