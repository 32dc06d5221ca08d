// Package toy has small stand-ins for tests of the grid's runner: machines that are mount namespaces of this machine, and a sealift that
// makes small bundles. What real hosts and the real program do is for testgrid/airgap to show.
package toy

import (
	"errors"
	"os"
	"path/filepath"
)

// Write puts the programs "hosts", for machines of the kind command, and "sealift" into a folder. Its subfolder "shared" is $SHARED on
// all machines, its file "log" lists the calls of hosts, its file "bundles" those of sealift, and its subfolder "machines" has the machines.
func Write(dir string) error {
	return errors.Join(os.WriteFile(filepath.Join(dir, "hosts"), []byte(hostsProgram), 0o700), os.WriteFile(filepath.Join(dir, "sealift"), []byte(sealiftProgram), 0o700),
		os.Mkdir(filepath.Join(dir, "shared"), 0o700))
}

// hostsProgram makes machines: folders, which stand in the place of this machine's own while a script runs.
const hostsProgram = `#!/bin/bash
set -eu
cd "$(dirname "$0")"
echo "$*" | head -n 1 | cut -c1-40 >>log
case $1 in
clean)
	mkdir -p machines
	for m in machines/*; do
		if [ $# = 1 ] || [ "$(cat "$m/owner" 2>/dev/null)" = "$2" ]; then rm -rf "$m"; fi
	done
	;;
make)
	wish=$(cat)
	count=$(sed 's/.*"count":\([0-9]*\).*/\1/' <<<"$wish") owner=$(sed 's/.*"owner":"\([^"]*\)".*/\1/' <<<"$wish") list=
	for _ in $(seq "$count"); do
		m=$(mktemp -d -p machines m-XXXXXX)
		echo "$owner" >"$m/owner"
		mkdir -p "$m"/{root,local/bin,varlib,vartmp,etc,opt}
		list="$list,{\"name\": \"${m#machines/}\", \"address\": \"127.0.0.1\", \"can\": [\"egress\"]}"
	done
	echo "[${list#,}]"
	;;
run)
	export SHARED=$PWD/shared
	exec unshare --mount bash -c '
		cd "machines/$0" || exit 250
		for pair in root:/root local:/usr/local etc:/etc opt:/opt varlib:/var/lib vartmp:/var/tmp; do mount --bind "${pair%%:*}" "${pair#*:}" || exit 250; done
		exec bash -c "$1"' "$2" "$3"
	;;
egress) if [ -e "machines/$2/root/egress" ]; then cat "machines/$2/root/egress"; else echo '[]'; fi ;;
remove) rm -rf "machines/$2" ;;
esac
`

// sealiftProgram makes a bundle whose install.sh installs a sealift and a kubectl that are just as small.
const sealiftProgram = `#!/bin/bash
set -eu
echo "sealift $*" >>"$(dirname "$0")/bundles"
[ "$1" = bundle ] && shift
while [ $# -gt 0 ]; do
	case $1 in -f) file=$2; shift ;; --out) out=$2; shift ;; --upgrade-from) echo "bundle from $2" >>"$(dirname "$0")/log"; shift ;; esac
	shift
done
! grep -q 'version: none' "$file" || { echo "the store has no such package" >&2; exit 1; }
work=$(mktemp -d -p "$(dirname "$out")")
cat >"$work/install.sh" <<'END'
echo "installing with $*"
cat >/usr/local/bin/sealift <<'PROGRAM'
#!/bin/bash
case "$1 $2" in
"token create") echo "echo joined with" ;;
"support-bundle --out")
	[ $# -lt 5 ] || grep -q "kind: SupportBundle" "$5" || exit 1
	mkdir -p top/pods
	echo nonsense >top/pods/analysis.json
	echo '[{"check": "cpu", "status": "pass", "message": "fine"}, {"check": "disk", "status": "fail", "message": "the disk is full", "hint": "make room"}]' >top/analysis.json
	tar czf "$3" top
	;;
esac
PROGRAM
printf '#!/bin/sh\necho node-1 Ready\n' >/usr/local/bin/kubectl
chmod 755 /usr/local/bin/*
END
echo "echo $(grep version: "$file") with \$* >/root/upgraded" >"$work/upgrade.sh"
tar czf "$out" -C "$work" install.sh upgrade.sh
rm -r "$work"
sum=$(sha256sum <"$file" | cut -d' ' -f1) version=$(grep -m1 -o 'version: .*' "$file" | cut -d' ' -f2 | tr -d '"}')
echo "{\"digest\": \"$sum\", \"packages\": [{\"name\": \"kubernetes\", \"version\": \"$version\", \"index\": \"$sum\"}]}"
`
