package hook_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestArchivesAreUnpacked has no igzip, one that works, and one that cannot run.
func TestArchivesAreUnpacked(t *testing.T) {
	usual := os.Getenv("PATH")
	for name, row := range map[string]struct{ igzip, used string }{
		"no igzip":             {"", ""},
		"igzip":                {`echo "$@" >>"$0.used"; exec gzip "$@"`, "-d\n"},
		"an igzip that is bad": {`echo "$@" >>"$0.used"; exit 1`, "-d\n"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for _, name := range []string{"tar", "gzip", "mkdir", "cat", "bash", "sh", "rm", "find", "mv", "sync", "install"} { // and no igzip of this machine
				program, err := exec.LookPath(name)
				if err == nil {
					err = os.Symlink(program, filepath.Join(folder, name))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			igzip := filepath.Join(folder, "igzip")
			if row.igzip != "" {
				if err := fixture.WriteProgram(igzip, "#!/bin/sh\n"+row.igzip+"\n"); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", folder)
			defer t.Setenv("PATH", usual)
			got, err := outcome(t, `mkdir from to; echo packed >from/f; tar czf a.tar.gz -C from f; sealift_unpack a.tar.gz to; R=$(cat to/f)`, nil, hook.Variables{})
			if err != nil || got != "packed" {
				t.Errorf("got %q, %v", got, err)
			}
			if used, _ := os.ReadFile(igzip + ".used"); string(used) != row.used {
				t.Errorf("igzip was called with %q, want %q", used, row.used)
			}
			if _, err := outcome(t, `mkdir to; echo damaged >a.tar.gz; sealift_unpack a.tar.gz to`, nil, hook.Variables{}); err == nil {
				t.Error("a damaged archive is unpacked")
			}
		})
	}
}

// TestFilesOfNodeAreReplacedWhole: another folder has the new content until it is on the disk.
func TestFilesOfNodeAreReplacedWhole(t *testing.T) {
	got, err := outcome(t, `mkdir -p from/bin to/bin; echo new >from/bin/a; ln -s a from/bin/b; echo more >from/bin/c; tar czf a.tar.gz -C from .
		echo old >to/bin/a; echo kept >to/bin/d; touch to/.sealift-new; ln to/bin/a opened
		sealift_unpack a.tar.gz to
		echo unit | sealift_place 0640 /dev/stdin to/unit; sealift_place 0755 from/bin/a to/bin/d
		R="$(cat to/bin/a to/bin/b to/bin/c to/bin/d to/unit opened | tr '\n' ' ')$(stat -c %a to/unit to/bin/d | tr '\n' ' ')$(find to -name '*.sealift-new')"`, nil, hook.Variables{})
	if want := "new new more new unit old 640 755 "; err != nil || got != want {
		t.Errorf("got %q, want %q, %v", got, want, err)
	}
}

// TestKubernetesNeedsNameServerThatPodsReach: without one, CoreDNS forwards to an address that belongs to nobody.
func TestKubernetesNeedsNameServerThatPodsReach(t *testing.T) {
	script, err := os.ReadFile("../../../addons/kubernetes/template/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{
		"nameserver 192.0.2.7\n":                                   "yes",
		"# 127.0.0.1\nnameserver 127.0.0.1\nnameserver 10.0.0.2\n": "yes",
		"nameserver\tfd00::53\n":                                   "yes",
		"nameserver 127.0.0.53\noptions edns0\n":                   "no",
		"nameserver ::1\n":                                         "no",
		"# No DNS servers known.\n":                                "no",
		"":                                                         "no",
	} {
		got, err := outcome(t, string(script)+"\nprintf %s "+shellword.Quote(content)+" >resolv.conf; R=no; ! kubernetes_has_name_server resolv.conf || R=yes", nil, hook.Variables{})
		if err != nil || got != want {
			t.Errorf("%q: %q, want %q, %v", content, got, want, err)
		}
	}
	if got, err := outcome(t, string(script)+"\nR=no; ! kubernetes_has_name_server none || R=yes", nil, hook.Variables{}); err != nil || got != "no" {
		t.Errorf("without a file: %q, %v", got, err)
	}
}
