#!/usr/bin/env bash
# Makes and removes machines for tests, as HOSTS.yaml's kind "command" calls such a program. It is an example to begin with: its
# machines are hosts of the lab, and yours are in a cloud. docs/testgrid.md lists the calls.
#
#     systems: {debian-12: {command: [testgrid/demo/hosts.sh]}}
set -euo pipefail

lab() { "${SEALIFT_TESTGRID:-bin/sealift-testgrid}" lab "$@"; }
prefix=cmd-

case $1 in
clean)
    lab list -o json | jq -r --arg prefix "$prefix${2:+$2-}" '.[].name | select(startswith($prefix))' | while read -r name; do lab remove "$name"; done
    ;;
make)
    wish=$(cat)
    owner=$(jq -r '.owner // ""' <<<"$wish")
    for _ in $(seq "$(jq .count <<<"$wish")"); do
        name=$prefix${owner:+$owner-}$RANDOM$RANDOM
        lab boot "$name" --exit >&2
        lab list -o json | jq --arg name "$name" '.[] | select(.name == $name) | {name, address, can: ["egress"]}'
    done | jq -s .
    ;;
run) lab enter "$2" -- bash -c "$3" ;;
remove) lab remove "$2" ;;
egress) lab egress "$2" -o json ;;
*)
    echo "unknown call $1" >&2
    exit 2
    ;;
esac
