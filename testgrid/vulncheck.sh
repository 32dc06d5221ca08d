#!/usr/bin/env bash
# Looks for known vulnerabilities in what the programs call, with the Go team's database as a module, so that a module proxy is
# all that it needs. It fails for each that .govulncheck does not explain. VULNDB=VERSION takes another state of the database.
set -euo pipefail
cd "$(dirname "$0")/.."

GOVULNCHECK=golang.org/x/vuln/cmd/govulncheck@v1.9.0
module=$(cd / && go mod download -json "golang.org/x/vulndb@${VULNDB:-latest}")
version=$(jq -r .Version <<<"$module")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sealift/vulndb
if [ ! -d "$cache/$version" ]; then
	mkdir -p "$cache"
	partial=$(mktemp -d "$cache/.partial.XXXXXX")
	trap 'rm -rf "$partial"' EXIT
	(cd / && go run "golang.org/x/vulndb/cmd/indexdb@$version" -vulns "$(jq -r .Dir <<<"$module")/data/osv" -out "$partial")
	chmod 0755 "$partial"
	mv -T "$partial" "$cache/$version"
fi

# The standard library is that of the toolchain that go.mod names for releases.
toolchain=$(go mod edit -json | jq -r '.Toolchain // empty')
bin=$(mktemp -d)
trap 'rm -rf "$bin" "${partial:-}"' EXIT
(cd / && GOBIN=$bin go install "$GOVULNCHECK")
check() { # FOLDER OF A MODULE, PACKAGES...
	(cd "$1" && GOTOOLCHAIN=${toolchain:-$(go env GOTOOLCHAIN)} "$bin/govulncheck" -db "file://$cache/$version" -format json "${@:2}")
}
check . ./cmd/... >"$bin/findings"
check deploy/image/programs ./kubectl helm.sh/helm/v4/cmd/helm >>"$bin/findings"
# A trace with a function is a vulnerability that is called, not one that is only linked.
jq -rs '[.[] | .finding // empty | select(.trace[0].function) | "\(.osv)\t\(.trace[0].module)@\(.trace[0].version), fixed in \(.fixed_version // "no version")"] | unique[]' "$bin/findings" >"$bin/called"

failed=0
while IFS=$'\t' read -r id where; do
	if ! grep -q "^$id " .govulncheck; then
		echo "$id: $where; see https://pkg.go.dev/vuln/$id; update the module, or explain it in .govulncheck"
		failed=1
	fi
done <"$bin/called"
while read -r id _; do
	if [[ $id = GO-* ]] && ! grep -q "^$id	" "$bin/called"; then
		echo "$id: .govulncheck explains it, and nothing calls it; remove the line"
		failed=1
	fi
done <.govulncheck
echo "golang.org/x/vulndb $version: $(wc -l <"$bin/called") called, $(grep -c '^GO-' .govulncheck || true) explained"
exit $failed
