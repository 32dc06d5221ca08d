# shellcheck shell=bash
# Waiting. Every wait ends at the latest when the step's time is over: Go stops the shell then.

# commandExists NAME: hooks ask for kubectl to see whether there is a cluster to ask. On a host without one, kubectl is of a host package,
# or of an install that was stopped.
commandExists() {
    command -v "$1" >/dev/null 2>&1 || return
    [ "$1" != kubectl ] || [ -e /etc/kubernetes/kubelet.conf ] || [ -e "${KUBECONFIG:-/etc/kubernetes/admin.conf}" ]
}

# sealift_once COMMAND [ARG…]: a command in one word with blanks, as some add-ons give it, is parted at them.
sealift_once() {
    if [ $# = 1 ] && [[ $1 == *[[:blank:]]* ]] && ! commandExists "$1"; then
        local -a sealift_words
        IFS=$' \t' read -r -a sealift_words <<<"$1"
        set -- "${sealift_words[@]}"
    fi
    "$@"
}

# sealift_uptime: sets sealift_reply to the seconds since the host started, which go on evenly when its clock is set. SECONDS does
# not, and hooks may set it themselves.
sealift_uptime() {
    read -r sealift_reply _ </proc/uptime
    sealift_reply=${sealift_reply%.*}
}

# sealift_patiently NUMBER: sets sealift_reply to a number of seconds or tries as this host needs it: a slow one gets more.
sealift_patiently() { sealift_reply=$(($1 * ${SEALIFT_PATIENCE:-1})); }

# spinner_until SECONDS COMMAND [ARG…]: runs a command each second until it succeeds; status 1 after SECONDS, or longer on a slow host. -1
# or nothing is without a limit of its own.
spinner_until() {
    local sealift_limit sealift_begin sealift_reply
    sealift_patiently "${1:--1}"
    sealift_limit=$sealift_reply
    shift
    sealift_uptime
    sealift_begin=$sealift_reply
    until sealift_once "$@"; do
        sealift_uptime
        if [ "$sealift_limit" -ge 0 ] && [ $((sealift_reply - sealift_begin)) -ge "$sealift_limit" ]; then
            return 1
        fi
        sleep 1
    done
}

sleep_spinner() { sleep "$1"; }

# sealift_try TRIES SECONDS QUIET COMMAND [ARG…]: tries again after SECONDS, more often on a slow host, then ends the hook. With QUIET only the last try
# complains.
sealift_try() {
    local sealift_left sealift_reply sealift_pause=$2 sealift_quiet=$3
    sealift_patiently "$1"
    sealift_left=$sealift_reply
    shift 3
    until if [ -n "$sealift_quiet" ] && [ "$sealift_left" -gt 1 ]; then sealift_once "$@" 2>/dev/null; else sealift_once "$@"; fi; do
        sealift_left=$((sealift_left - 1))
        [ "$sealift_left" -gt 0 ] || bail "'$*' did not succeed"
        sleep "$sealift_pause"
    done
}

try_1m() { sealift_try 30 2 quiet "$@"; }
try_5m() { sealift_try 150 2 quiet "$@"; }
try_1m_stderr() { sealift_try 30 2 '' "$@"; }

# restart_systemd_and_wait UNIT: restarts a unit and waits two minutes, or longer on a slow host, until it is active as another process.
restart_systemd_and_wait() {
    local sealift_before
    sealift_before=$(systemctl show --property MainPID --value "$1" 2>/dev/null) || true
    systemctl restart "$1" || bail "$1 did not start: $(sealift_unit_says "$1")"
    spinner_until 120 sealift_restarted "$1" "$sealift_before" || bail "$1 did not start: $(sealift_unit_says "$1")"
}

# sealift_unit_says UNIT: its state, and the last lines that its program printed. systemd's own lines come after those of a program that
# does not start, and say nothing of the reason.
sealift_unit_says() {
    systemctl status --no-pager --lines 0 "$1" 2>&1 || true
    journalctl --no-pager --quiet --output cat --lines 10 "_SYSTEMD_UNIT=${1%.service}.service" 2>&1 || true
}

# sealift_restarted UNIT PID: a unit without a main process is only asked whether it is active.
sealift_restarted() {
    local sealift_now
    systemctl --quiet is-active "$1" || return 1
    sealift_now=$(systemctl show --property MainPID --value "$1" 2>/dev/null) || return 1
    [ "$sealift_now" = 0 ] || [ -z "$sealift_now" ] || [ "$sealift_now" != "$2" ]
}
