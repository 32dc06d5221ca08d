# shellcheck shell=bash
# What hooks say, to the standard error. A message is never a format. There are no colours: the output goes to a log.

# shellcheck disable=SC2034
RED='' GREEN='' YELLOW='' BLUE='' NC=''

log() { printf '%s\n' "$*" >&2; }
logStep() { printf '⚙  %s\n' "$*" >&2; }
logSubstep() { printf '   - %s\n' "$*" >&2; }
logSuccess() { printf '✔ %s\n' "$*" >&2; }
logWarn() {
    printf 'warning: %s\n' "$*" >&2
    [ -z "${sealift_warnings:-}" ] || printf '%s\n' "$*" >>"$sealift_warnings"
}
logFail() { printf 'failed: %s\n' "$*" >&2; }

# bail MESSAGE: ends the hook.
bail() {
    sealift_failed_at=''
    logFail "$*"
    exit 1
}

# An install never asks: behind 'cat install.sh | bash' there is nobody to answer. Questions have the answers that kURL gives
# without a terminal; ASSUME_YES=1 says yes to all.

prompts_can_prompt() { return 1; }

# prompt: the answer that PROMPT_RESULT shall have comes from TEST_PROMPT_RESULT, or the hook ends.
prompt() {
    [ -n "${TEST_PROMPT_RESULT:-}" ] || bail "the add-on asks a question, and nobody can answer: give it the option in the Installer"
    # shellcheck disable=SC2034
    PROMPT_RESULT=$TEST_PROMPT_RESULT
}

# confirmY, confirmN [QUESTION]: status 0 for yes.
confirmY() {
    PROMPT_RESULT=y
    log "(Y/n) y"
}

confirmN() {
    PROMPT_RESULT=n
    [ "${ASSUME_YES:-}" != 1 ] || PROMPT_RESULT=y
    log "(y/N) $PROMPT_RESULT"
    [ "$PROMPT_RESULT" = y ]
}

# Sealift reports to nobody.
report_addon_start() { log "add-on $1 $2: begins"; }
report_addon_success() { log "add-on $1 $2: done"; }
