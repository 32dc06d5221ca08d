# shellcheck shell=bash
# The loop that serves Go's requests.

# sealift_pairs NAME: the keys and values of an array.
sealift_pairs() {
    local -n sealift_array=$1
    local sealift_key
    for sealift_key in "${!sealift_array[@]}"; do
        printf '%s\0' "$sealift_key" "${sealift_array[$sealift_key]}"
    done
}

# sealift_describe KIND NAME: one message about a variable.
sealift_describe() {
    local -n sealift_described=$2
    if [ "$1" = scalar ]; then
        printf '%s\0' scalar 2 "$2" "${sealift_described-}"
        return
    fi
    printf '%s\0' "$1" "$((2 * ${#sealift_described[@]} + 1))" "$2"
    sealift_pairs "$2"
}

# sealift_restore KIND NAME COUNT: puts an array back, its keys and values following on descriptor 3.
sealift_restore() {
    local sealift_key sealift_value sealift_left=$3
    unset -v "$2"
    if [ "$1" = map ]; then
        declare -gA "$2=()"
    else
        declare -ga "$2=()"
    fi
    local -n sealift_array=$2
    for (( ; sealift_left > 0; sealift_left--)); do
        IFS= read -r -d '' -u 3 sealift_key
        IFS= read -r -d '' -u 3 sealift_value
        # shellcheck disable=SC2004
        sealift_array[$sealift_key]=$sealift_value
    done
}

declare -A sealift_kinds=()

# sealift_variables: everything that hooks can have set.
sealift_variables() {
    local sealift_name sealift_line
    sealift_kinds=()
    while IFS= read -r sealift_name; do
        sealift_kinds[$sealift_name]=list
    done < <(compgen -A arrayvar)
    while IFS= read -r sealift_line; do
        if [[ $sealift_line =~ ^declare\ -[a-zA-Z]*A[a-zA-Z]*\ ([A-Za-z_][A-Za-z0-9_]*) ]]; then
            sealift_kinds[${BASH_REMATCH[1]}]=map
        fi
    done < <(declare -A)
    while IFS= read -r sealift_name; do
        case $sealift_name in
        sealift_* | BASH* | COMP_* | DIRSTACK | FUNCNAME | GROUPS | PIPESTATUS) ;;
        *) sealift_describe "${sealift_kinds[$sealift_name]:-scalar}" "$sealift_name" ;;
        esac
    done < <(compgen -v)
    while IFS= read -r sealift_name; do
        printf '%s\0' exported 1 "$sealift_name"
    done < <(compgen -e)
}

sealift_settle
while IFS= read -r -d '' -u 3 sealift_verb; do
    case $sealift_verb in
    set)
        IFS= read -r -d '' -u 3 sealift_name
        IFS= read -r -d '' -u 3 sealift_value
        if [[ ${!sealift_name@a} == *[aA]* ]]; then
            unset -v "$sealift_name"
        fi
        printf -v "$sealift_name" '%s' "$sealift_value"
        ;;
    list | map)
        IFS= read -r -d '' -u 3 sealift_name
        IFS= read -r -d '' -u 3 sealift_value
        sealift_restore "$sealift_verb" "$sealift_name" "$sealift_value"
        ;;
    export)
        IFS= read -r -d '' -u 3 sealift_name
        # shellcheck disable=SC2163
        export "$sealift_name"
        ;;
    unset)
        IFS= read -r -d '' -u 3 sealift_name
        unset -v "$sealift_name"
        ;;
    source)
        IFS= read -r -d '' -u 3 sealift_value
        sealift_settle
        # shellcheck disable=SC1090
        . "$sealift_value"
        ;;
    call)
        sealift_call=()
        IFS= read -r -d '' -u 3 sealift_value
        for (( ; sealift_value > 0; sealift_value--)); do
            IFS= read -r -d '' -u 3 sealift_name
            sealift_call+=("$sealift_name")
        done
        sealift_settle
        "${sealift_call[@]}" 3<&-
        ;;
    variables)
        sealift_variables >&4
        ;;
    esac
    sealift_settle
    printf 'done\0000\000' >&4
done
