#!/bin/bash
# hook::run calls the functions of a hook. With --config, it calls __config__. Otherwise it calls for each binding context the
# first of these functions that exists, in a subshell, with the context at hand for the functions context::*:
#
#     __on_startup
#     __on_kubernetes::<binding>::synchronization, ::added, ::added_or_modified, ::modified, ::deleted
#     __on_kubernetes::<binding>
#     __on_schedule::<binding>        __on_group::<group>
#     __on_validating::<binding>      __on_mutating::<binding>
#     __on_conversion::<binding>::<from>::<to>, __on_conversion::<binding>
#     __main__
#
# <from> and <to> are versions with a dot in place of the slash: stable.example.com.v1.

# hook::_plan prints a line for each binding context: its binding, and the names of the functions for it, the best first.
hook::_plan() {
    # shellcheck disable=SC2016 # the variables are jq's
    context::global::jq -r '
        .[] | (.binding // "unknown") as $binding
        | "__on_kubernetes::\($binding)" as $kubernetes
        | "__on_conversion::\($binding)" as $conversion
        | (if $binding == "onStartup" then ["__on_startup"]
           elif .type == "Group" then ["__on_group::\(.groupName // $binding)", "__on_group::\($binding)"]
           elif .type == "Schedule" then ["__on_schedule::\($binding)"]
           elif .type == "Synchronization" then ["\($kubernetes)::synchronization", $kubernetes]
           elif .type == "Event" and .watchEvent == "Added" then ["\($kubernetes)::added", "\($kubernetes)::added_or_modified", $kubernetes]
           elif .type == "Event" and .watchEvent == "Modified" then ["\($kubernetes)::modified", "\($kubernetes)::added_or_modified", $kubernetes]
           elif .type == "Event" then ["\($kubernetes)::deleted", $kubernetes]
           elif .type == "Validating" then ["__on_validating::\($binding)"]
           elif .type == "Mutating" then ["__on_mutating::\($binding)"]
           elif .type == "Conversion" then
               [([$conversion, .fromVersion, .toVersion] | map(tostring | sub("/"; ".")) | join("::")), $conversion]
           else [] end) + ["__main__"]
        | [$binding] + . | @tsv'
}

# hook::_run_first_available_handler calls the first of the functions that exists. They are words of one argument or of several.
hook::_run_first_available_handler() {
    local handler handlers
    IFS=$' \t\n' read -ra handlers <<<"$*"
    for handler in "${handlers[@]}"; do
        if declare -F "$handler" >/dev/null; then
            # A subshell, so that nothing is left for the next context. Not after || or if: set -e works in it.
            ("$handler")
            return
        fi
    done
    echo "no function for this binding context; define one of: ${handlers[*]}" >&2
    return 1
}

hook::run() {
    if [[ ${1:-} == --config ]]; then
        __config__
        exit 0
    fi
    local plan lines line status
    plan=$(hook::_plan)
    mapfile -t lines <<<"$plan"
    export BINDING_CONTEXT_CURRENT_INDEX BINDING_CONTEXT_CURRENT_BINDING
    for ((line = 0; line < ${#lines[@]}; line++)); do
        [[ -n ${lines[line]} ]] || continue # there is no context
        BINDING_CONTEXT_CURRENT_INDEX=$line
        BINDING_CONTEXT_CURRENT_BINDING=${lines[line]%%$'\t'*}
        hook::_run_first_available_handler "${lines[line]#*$'\t'}"
        status=$? # of a hook that has turned set -e off
        [[ $status == 0 ]] || exit "$status"
    done
}
