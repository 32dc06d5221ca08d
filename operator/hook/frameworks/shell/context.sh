#!/bin/bash
# Functions that read the binding context at hand. A path is keys with dots between them, or begins with them and goes on as a jq
# expression: snapshots.pods.0.filterResult, snapshots.my-pods | length. What begins with a dot is a jq expression.

# context::global::jq runs jq on all binding contexts, context::jq on the current one.
context::global::jq() { jq "$@" "$BINDING_CONTEXT_PATH"; }
context::jq() { jq ".[${BINDING_CONTEXT_CURRENT_INDEX:-0}]" "$BINDING_CONTEXT_PATH" | jq "$@"; }

# context::_split cuts a path at its dots, and puts jq's expressions for the keys into the array steps of its caller. Quotes
# keep the dots of a key: metadata.labels."a.b/c". Digits are an index of a list: a.0 is a[0]. Other brackets are jq's. The jq
# expression that follows the path is put into expression; single quotes in it are double ones.
context::_split() {
    local rest=${1#.} key text taken
    local quoted='^\[?"([^"]*)"\]?' single="^\[?'([^']*)'\]?" bracket='^\[([^]]*)\]' plain='^[^].[|(){},;:?=<>+*$@#%![:space:]][^.[|(){},;:?=<>+*$@#%![:space:]]*'
    steps=() expression=
    while [[ -n $rest ]]; do
        text=
        if [[ $rest =~ $quoted || $rest =~ $single ]]; then
            text=yes key=${BASH_REMATCH[1]} taken=${BASH_REMATCH[0]}
        elif [[ $rest =~ $bracket ]]; then
            key=${BASH_REMATCH[1]} taken=${BASH_REMATCH[0]}
        elif [[ $rest =~ $plain && $rest != //* ]]; then
            text=yes taken=${BASH_REMATCH[0]%%//*} # jq's operator, not a part of a key
            key=$taken
        else
            expression=${rest//\'/\"}
            return
        fi
        rest=${rest:${#taken}}
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

# context::_filter prints the jq filter of a path.
context::_filter() {
    if [[ $1 == .* ]]; then
        printf '%s' "$1"
        return
    fi
    local steps expression
    context::_split "$1"
    printf '(.'
    ((${#steps[@]} == 0)) || printf ' | .[%s]' "${steps[@]}"
    printf ')%s' "$expression"
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
    context::jq -r "$(context::_filter "${1:-}")"
}

# context::has reports whether the current context has a key or an index of a list, even if the value there is null. A jq expression
# must have a result that is not null.
context::has() {
    local steps expression last parent
    context::_split "${1:-}"
    if [[ -n $expression ]]; then
        context::jq -e "[$(context::_filter "$1")] | any(. != null)" >/dev/null
        return
    fi
    ((${#steps[@]})) || return 0
    last=$((${#steps[@]} - 1))
    parent=$(printf ' | .[%s]' "${steps[@]:0:last}")
    ((last)) || parent=
    context::jq -e "try (.$parent | has(${steps[last]})) catch false" >/dev/null
}

context::is_true() { context::jq -e "($(context::_filter "${1:-}")) == true" >/dev/null; }
context::is_false() { context::jq -e "($(context::_filter "${1:-}")) == false" >/dev/null; }
context::is_null() { context::jq -e "($(context::_filter "${1:-}")) == null" >/dev/null; }
