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

# context::_split cuts a path at its dots, and puts jq's expressions for the keys into the array steps of its caller. Quotes
# keep the dots of a key: metadata.labels."a.b/c". Digits are an index of a list: a.0 is a[0]. Other brackets are jq's.
context::_split() {
    local rest=${1#.} key text
    local quoted='^\[?"([^"]*)"\]?' single="^\[?'([^']*)'\]?" bracket='^\[([^]]*)\]' plain='^.[^.[]*'
    steps=()
    while [[ -n $rest ]]; do
        text=
        if [[ $rest =~ $quoted || $rest =~ $single ]]; then
            text=yes key=${BASH_REMATCH[1]}
        elif [[ $rest =~ $bracket ]]; then
            key=${BASH_REMATCH[1]}
        elif [[ $rest =~ $plain ]]; then
            text=yes key=${BASH_REMATCH[0]}
        fi
        rest=${rest:${#BASH_REMATCH[0]}}
        rest=${rest#.}
        if [[ -n $text && $key != *[!0-9]* && $key != "" ]]; then
            key="if type == \"array\" then $key else \"$key\" end" # an object may have such a key, too
        elif [[ -n $text ]]; then
            key=${key//\\/\\\\}
            key=\"${key//\"/\\\"}\"
        fi
        steps+=("$key")
    done
}

# context::_path turns a path into a jq filter, and takes over one that begins with a dot.
context::_path() {
    if [[ $1 == .* ]]; then
        printf '%s' "$1"
        return
    fi
    local steps
    context::_split "$1"
    printf '.'
    ((${#steps[@]} == 0)) || printf ' | .[%s]' "${steps[@]}"
}

# context::get prints a value of the current context: text as it is, everything else as JSON. With --required, it fails if there
# is no such value.
context::get() {
    local required=
    if [[ ${1:-} == --required ]]; then
        required=yes
        shift
    fi
    if [[ -n $required ]] && ! context::has "${1:-}"; then
        echo "context::get: the binding context has no $1, which is required" >&2
        return 1
    fi
    context::jq -r "$(context::_path "${1:-}")"
}

# context::has says whether the current context has a key or an index of a list, even if the value there is null.
context::has() {
    local steps last parent
    context::_split "$1"
    ((${#steps[@]})) || return 0
    last=$((${#steps[@]} - 1))
    parent=$(printf ' | .[%s]' "${steps[@]:0:last}")
    ((last)) || parent=
    context::jq -e "try (.$parent | has(${steps[last]})) catch false" >/dev/null
}

context::is_true() { context::jq -e "($(context::_path "$1")) == true" >/dev/null; }
context::is_false() { context::jq -e "($(context::_path "$1")) == false" >/dev/null; }
context::is_null() { context::jq -e "($(context::_path "$1")) == null" >/dev/null; }

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
