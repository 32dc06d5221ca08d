# The long-lived shell of an install. Go writes requests to descriptor 3, fields ended by NUL; this shell answers on
# descriptor 4. Everything runs at the top level of one shell, since add-ons pass globals to one another.
set -eE
exec </dev/null

sealift_failed_at=''
trap 'sealift_failed_at="${BASH_SOURCE[0]:-sealift}:${LINENO}: ${BASH_COMMAND}"' ERR
trap 'printf "exit %s\0%s\0" "$?" "$sealift_failed_at" >&4' EXIT

# --- what add-ons call -----------------------------------------------------------------------------------------------

RED='' GREEN='' YELLOW='' BLUE='' NC=''

log() { printf '%s\n' "$*" >&2; }
logStep() { printf '⚙  %s\n' "$*" >&2; }
logSubstep() { printf '   - %s\n' "$*" >&2; }
logSuccess() { printf '✔ %s\n' "$*" >&2; }
logWarn() { printf 'warning: %s\n' "$*" >&2; }
logFail() { printf 'failed: %s\n' "$*" >&2; }

bail() {
    sealift_failed_at=''
    logFail "$*"
    exit 1
}

commandExists() { command -v "$1" >/dev/null 2>&1; }

# render_yaml_file_2 FILE: prints the file with ${NAME} and $NAME replaced by the values of shell variables, and nothing
# else expanded: a value never becomes code.
render_yaml_file_2() {
    [ -f "$1" ] || return 1
    local text out='' name
    text=$(cat "$1" && printf x)
    text=${text%x}
    while [[ $text =~ \$(\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Za-z_][A-Za-z0-9_]*) ]]; do
        name=${BASH_REMATCH[1]#\{}
        name=${name%\}}
        out+=${text%%"${BASH_REMATCH[0]}"*}${!name}
        text=${text#*"${BASH_REMATCH[0]}"}
    done
    printf '%s' "$out$text"
}

# sealift_add_on_dir NAME: prints the folder that kustomize builds for an add-on, made empty.
sealift_add_on_dir() {
    local dir="$DIR/kustomize/$1"
    rm -rf "$dir"
    mkdir -p "$dir"
    printf '%s' "$dir"
}

# sealift_apply NAME DIR: applies a kustomization, prunes what the add-on no longer has, and waits until all of it is well.
sealift_apply() { "$SEALIFT_BIN" apply -k "$2" --set "$1" --wait "${SEALIFT_WAIT:-5m}"; }

# insert_resources KUSTOMIZATION FILE: adds a file to the resources of a kustomization.
insert_resources() { sealift_insert "$1" resources "$2"; }

# insert_patches_strategic_merge KUSTOMIZATION FILE: adds a patch to a kustomization.
insert_patches_strategic_merge() { sealift_insert "$1" patchesStrategicMerge "$2"; }

# sealift_insert FILE KEY ITEM: puts an item first in a top-level list, which is made when it is not there.
sealift_insert() {
    local line found=''
    {
        while IFS= read -r line || [ -n "$line" ]; do
            printf '%s\n' "$line"
            if [ "$line" = "$2:" ]; then
                printf -- '- %s\n' "$3"
                found=1
            fi
        done <"$1"
        [ -n "$found" ] || printf '%s:\n- %s\n' "$2" "$3"
    } >"$1.new"
    mv "$1.new" "$1"
}

# restart_systemd_and_wait UNIT: restarts a unit and waits up to two minutes until it is active.
restart_systemd_and_wait() {
    systemctl restart "$1" || bail "$1 did not start: $(systemctl status --no-pager --lines 20 "$1" 2>&1)"
    spinner_until 120 systemctl --quiet is-active "$1" || bail "$1 did not start: $(systemctl status --no-pager --lines 20 "$1" 2>&1)"
}

# spinner_until SECONDS COMMAND [ARG…]: runs a command each second until it succeeds; 1 after SECONDS, for ever with -1.
spinner_until() {
    local limit=${1:--1} begin=$SECONDS
    shift
    until "$@"; do
        if [ "$limit" -ge 0 ] && [ $((SECONDS - begin)) -ge "$limit" ]; then
            return 1
        fi
        sleep 1
    done
}

# --- the loop --------------------------------------------------------------------------------------------------------

while IFS= read -r -d '' -u 3 sealift_verb; do
    case $sealift_verb in
    set)
        IFS= read -r -d '' -u 3 sealift_name
        IFS= read -r -d '' -u 3 sealift_value
        printf -v "$sealift_name" '%s' "$sealift_value"
        ;;
    source)
        IFS= read -r -d '' -u 3 sealift_value
        # shellcheck disable=SC1090
        . "$sealift_value"
        ;;
    call)
        IFS= read -r -d '' -u 3 sealift_value
        "$sealift_value" 3<&-
        ;;
    variables)
        while IFS= read -r sealift_name; do
            [[ ${!sealift_name@a} == *[aA]* ]] || printf '%s\0%s\0' "$sealift_name" "${!sealift_name}" >&4
        done < <(compgen -v)
        ;;
    esac
    printf 'done\0' >&4
done
