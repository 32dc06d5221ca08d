# shellcheck shell=bash
# Texts: templates, YAML, versions.

# sealift_absolute PATH: sets sealift_reply. Go does not follow the shell's cd.
sealift_absolute() {
    sealift_reply=$1
    [[ $1 == /* ]] || sealift_reply=$PWD/$1
}

# sealift_render STYLE FILE: prints a template with the values of the variables that it names, local ones too. The values are
# data: nothing in them or in the file is run.
sealift_render() {
    local -a sealift_pairs=()
    local sealift_reply sealift_names sealift_name
    [ -f "$2" ] || return 1
    sealift_absolute "$2"
    sealift_names=$(sealift_ask template-names "$sealift_reply") || return 1
    while IFS= read -r sealift_name; do
        [ -z "$sealift_name" ] || [[ $sealift_name == sealift_* ]] || sealift_pairs+=("$sealift_name" "${!sealift_name-}")
    done <<<"$sealift_names"
    sealift_ask template-render "$1" "$sealift_reply" "${sealift_pairs[@]}"
}

# render_yaml_file_2 FILE: as a here document would be.
render_yaml_file_2() { sealift_render document "$1"; }

# render_yaml_file FILE: as between double quotes: those of the file vanish.
render_yaml_file() { sealift_render quoted "$1"; }

# render_yaml NAME: renders $DIR/yaml/NAME.
render_yaml() { sealift_render quoted "$DIR/yaml/$1"; }

# yaml_indent PREFIX: a filter.
yaml_indent() {
    local sealift_line
    while IFS= read -r sealift_line || [ -n "$sealift_line" ]; do
        printf '%s%s\n' "$1" "$sealift_line"
    done
}

# yaml_escape_string_quotes: a filter; every " becomes \".
yaml_escape_string_quotes() { sed 's/"/\\"/g'; }

# yaml_newline_to_literal: a filter; lines are joined by \n in two characters.
yaml_newline_to_literal() { awk 'NR > 1 { printf "%s", "\\n" } { printf "%s", $0 } END { if (NR) print "" }'; }

# get_yaml_from_multidoc_yaml FILE NAME: prints the document of that name.
get_yaml_from_multidoc_yaml() {
    local sealift_reply
    sealift_absolute "$1"
    sealift_ask document "$sealift_reply" "$2"
}

canonical_image_name() { sealift_ask image-name "$1"; }

# semverParse VERSION: sets major, minor and patch.
semverParse() {
    local sealift_rest=${1#v}
    sealift_rest=${sealift_rest%%[-+]*}
    IFS=. read -r major minor patch _ <<<"$sealift_rest"
    minor=${minor:-0} patch=${patch:-0}
}

# semverCompare A B: sets SEMVER_COMPARE_RESULT to -1, 0 or 1.
semverCompare() {
    # shellcheck disable=SC2034
    SEMVER_COMPARE_RESULT=$(sealift_ask compare-versions 3 "$1" "$2")
}

# common_upgrade_compare_versions A B: prints -1, 0 or 1 for major and minor.
common_upgrade_compare_versions() { sealift_ask compare-versions 2 "$1" "$2"; }

# kubernetes_version_minor VERSION: prints the minor version.
kubernetes_version_minor() {
    # shellcheck disable=SC2034
    local major minor patch
    semverParse "$1"
    printf '%s\n' "$minor"
}

# splitHostPort HOST:PORT: sets HOST and PORT, which is empty where there is none. An IPv6 address with a port has brackets.
splitHostPort() {
    # shellcheck disable=SC2034
    case $1 in
    \[*\]:*) HOST=${1%:*} PORT=${1##*:} ;;
    \[*\] | *:*:*) HOST=$1 PORT='' ;;
    *:*) HOST=${1%:*} PORT=${1##*:} ;;
    *) HOST=$1 PORT='' ;;
    esac
}
