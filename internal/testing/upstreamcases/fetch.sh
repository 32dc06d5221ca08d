#!/usr/bin/env bash
# Fetches the upstream cases that are public into a folder, for SEALIFT_CASES. upstream.tsv has their repositories, commits and digests.
# The other cases are outcomes of running the original programs. Nobody publishes them, so their tests skip.
# Usage: fetch.sh [DIR]. Without DIR it is $SEALIFT_CASES, or shared/cases beside the checkout.
# It needs git, tar and zstd. SEALIFT_CASES_GIT replaces https://github.com, SEALIFT_CASES_PINS replaces upstream.tsv.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
base=${SEALIFT_CASES_GIT:-https://github.com}
pins=${SEALIFT_CASES_PINS:-$here/upstream.tsv}
out=${1:-${SEALIFT_CASES:-$here/../../../../shared/cases}}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# commit prints the full name of a commit of a repository, which it clones once: without files, which git fetches when they are read.
commit() {
  local clone=$work/git/$1
  [ -d "$clone" ] || git clone -q --no-checkout --filter=blob:none "$base/$1" "$clone" || return
  git -C "$clone" rev-parse --quiet --verify "$2^{commit}" || { echo "fetch.sh: $base/$1 has no commit $2" >&2; return 1; }
}

# Contents are written to $work/content and compared with their digest before they get their name.
content() { # REPOSITORY COMMIT PATHS CASE: prints the sha256
  local clone=$work/git/$1 tree=$work/tree
  case $4 in
  *.tar.zst)
    rm -rf "$tree" && mkdir "$tree"
    # shellcheck disable=SC2086 # several paths
    git -C "$clone" archive "$2" -- $3 | tar -x -C "$tree"
    # Links become files, as an add-on's package has them.
    tar --dereference --hard-dereference --sort=name --owner=0 --group=0 --mtime=@0 -C "$tree" -c . | zstd -q >"$work/content"
    (cd "$tree" && find -L . -type f | LC_ALL=C sort | tr '\n' '\0' | xargs -0 sha256sum) | sha256sum
    ;;
  *)
    git -C "$clone" show "$2:$3" >"$work/content"
    sha256sum <"$work/content"
    ;;
  esac | cut -d ' ' -f 1
}

while IFS=$'\t' read -r case repository pin paths want <&3; do
  [[ $case = \#* || -z $case ]] && continue
  if ! full=$(commit "$repository" "$pin") || ! got=$(content "$repository" "$full" "$paths" "$case"); then
    failed=1
    continue
  fi
  if [ "$got" != "$want" ]; then
    echo "fetch.sh: $case: $repository at $full has sha256 $got, want $want" >&2
    failed=1
    continue
  fi
  mkdir -p "$out/$(dirname "$case")"
  install -m 644 "$work/content" "$out/$case.new"
  mv "$out/$case.new" "$out/$case"
  echo "$case: $repository at $full"
done 3<"$pins"
exit $failed
