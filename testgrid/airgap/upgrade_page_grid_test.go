//go:build grid

package airgap_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/docexamples"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// TestUpgradesPageIsFollowed runs what docs/upgrade.md shows, in its order: as root on a control plane, and where bundles are made.
// It carries the record and the bundle between the two.
func TestUpgradesPageIsFollowed(t *testing.T) {
	older, newer := build(t, previous, "debian-12"), build(t, current, "debian-12")
	desk, disk := t.TempDir(), t.TempDir()
	shell(t, desk, "ln -s "+shellword.Quote(newer.packages)+" dist && ln -f "+shellword.Quote(older.packages)+"/kubernetes-"+previous+"* dist/")
	demo, err := os.ReadFile(filepath.Join(repository, "testgrid/demo/installer.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	place(t, filepath.Join(desk, "new.yaml"), demo)
	first, worker := node{lab.Host(t, host.Spec{USB: []string{disk, older.usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	first.must(strings.Replace(install, "/media/usb", "/media/usb2", 1))
	worker.must(first.joinCommand(""))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s && mount -o remount,bind,rw /media/usb")

	names := strings.NewReplacer("host-1", first.Name(), "host-2", worker.Name())
	for _, step := range docexamples.Steps(t, filepath.Join(repository, "docs/upgrade.md")) {
		step.Want = names.Replace(step.Want)
		var out string
		if step.Prompt == docexamples.Desk {
			cmd := exec.CommandContext(t.Context(), "bash", "-c", step.Command)
			cmd.Dir, cmd.Env = desk, append(os.Environ(), "PATH="+newer.dir()+":"+os.Getenv("PATH"))
			text, err := cmd.CombinedOutput()
			if out = string(text); err != nil {
				t.Fatalf("$ %s: %v\n%s", step.Command, err, out)
			}
			shell(t, desk, "cp cluster.tar.gz "+shellword.Quote(disk))
		} else {
			out = first.must(`sudo() { "$@"; }; cd "$(cat /run/tour 2>/dev/null || echo /root)" && { ` + step.Command + "\n} && pwd >/run/tour")
			if record, code := first.run("cat /root/RECORD.json 2>/dev/null"); code == 0 {
				place(t, filepath.Join(desk, "RECORD.json"), []byte(record))
			}
		}
		t.Logf("%s %s\n%s", step.Prompt, step.Command, out)
		if step.Want != "" && !step.Shows(out) {
			t.Errorf("%s %s printed\n%s\nand the page has\n%s", step.Prompt, step.Command, out, step.Want)
		}
	}
	first.runs("v"+previous, 2)
	first.pulled()
}
