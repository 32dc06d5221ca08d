package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/testgrid/machine"
	"github.com/sealift/sealift/testgrid/report"
	"github.com/sealift/sealift/testgrid/runner"
	"github.com/sealift/sealift/testgrid/short"
	"github.com/sealift/sealift/testgrid/spec"
)

// bench is a folder with all that a run needs. Its machines are mount namespaces of this machine, and its sealift makes small
// bundles: what the lab's hosts and the real program do is for testgrid/airgap to show.
type bench struct{ dir string }

// hostsProgram makes machines: folders, which stand in the place of this machine's own while a script runs.
const hostsProgram = `#!/bin/bash
set -eu
cd "$(dirname "$0")"
echo "$*" | head -n 1 | cut -c1-40 >>log
case $1 in
clean) rm -rf machines; mkdir machines ;;
make)
	count=$(sed 's/.*"count":\([0-9]*\).*/\1/') list=
	for _ in $(seq "$count"); do
		m=$(mktemp -d -p machines m-XXXXXX)
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
[ "$1" = bundle ] && shift
while [ $# -gt 0 ]; do
	case $1 in -f) file=$2; shift ;; --out) out=$2; shift ;; esac
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
echo "echo $(grep version: "$file") >/root/upgraded" >"$work/upgrade.sh"
tar czf "$out" -C "$work" install.sh upgrade.sh
rm -r "$work"
sum=$(sha256sum <"$file" | cut -d' ' -f1) version=$(grep -m1 -o 'version: .*' "$file" | cut -d' ' -f2 | tr -d '"}')
echo "{\"digest\": \"$sum\", \"packages\": [{\"name\": \"kubernetes\", \"version\": \"$version\", \"index\": \"$sum\"}]}"
`

func newBench(t *testing.T, tests string) bench {
	t.Helper()
	short.Skip(t, "root, for mount namespaces")
	b := bench{t.TempDir()}
	for name, text := range map[string]string{"hosts": hostsProgram, "sealift": sealiftProgram, "hosts.yaml": "systems:\n  plain: {command: ./hosts}\n  other: {command: ./hosts}\n"} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(b.dir, "shared"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.describe(t, tests)
	return b
}

// describe replaces the file of tests. $SHARED is a folder that all machines have.
func (b bench) describe(t *testing.T, tests string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, "tests.yaml"), []byte(strings.ReplaceAll(tests, "KUBERNETES", "{kubernetes: {version: 1.36.3}}")), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (b bench) run(ctx context.Context, o runner.Options) ([]report.Cell, error) {
	file, err := spec.Load(filepath.Join(b.dir, "tests.yaml"), spec.Values{})
	if err != nil {
		return nil, err
	}
	if o.Hosts, err = machine.Load(filepath.Join(b.dir, "hosts.yaml"), nil); err != nil {
		return nil, err
	}
	o.Files, o.Out, o.Sealift, o.Store = []*spec.File{file}, filepath.Join(b.dir, "report"), filepath.Join(b.dir, "sealift"), "store"
	if len(o.Systems) == 0 {
		o.Systems = []string{"plain"}
	}
	return runner.Run(ctx, o)
}

func (b bench) must(t *testing.T, o runner.Options) map[string]report.Cell {
	t.Helper()
	o.Progress = func(line string) { t.Log(line) }
	cells, err := b.run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(b.dir, "machines", "*")); len(left) > 0 && !o.KeepFailed || err != nil {
		t.Errorf("machines are left: %v, %v", left, err)
	}
	byTest := map[string]report.Cell{}
	for _, c := range cells {
		byTest[c.Test+"/"+c.System] = c
	}
	return byTest
}

// made counts the machines that the program was asked for, in calls.
func (b bench) made(t *testing.T) int {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(b.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(log), "make\n")
}
