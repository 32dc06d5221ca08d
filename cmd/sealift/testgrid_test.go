package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/sealift/sealift/testgrid/lab/host"
)

// labState gives the commands a rack of their own.
func labState(t *testing.T) {
	t.Helper()
	// A test's own folder may be on an overlay, which cannot carry another.
	dir, err := os.MkdirTemp("/var/lib", "sealift-lab-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(host.StateEnv, dir)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
}

// lab runs one lab command line.
func lab(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = run(t.Context(), append([]string{"testgrid", "lab"}, args...), strings.NewReader(stdin), &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestLabHostFromBootToRemove(t *testing.T) {
	labState(t)
	usb := t.TempDir()
	if err := os.WriteFile(usb+"/bundle", []byte("carried by hand"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := lab(t, "", "boot", "node-1", "--usb", usb); code != exitDone || !strings.Contains(out, "lab enter node-1") {
		t.Fatalf("boot: %d, %s%s", code, out, errOut)
	}
	defer func() {
		if code, _, errOut := lab(t, "", "remove", "--all"); code != exitDone {
			t.Errorf("remove --all: %d, %s", code, errOut)
		}
		if code, out, _ := lab(t, "", "list", "-o", "json"); code != exitDone || strings.TrimSpace(out) != "[]" {
			t.Errorf("after remove --all there are %s", out)
		}
	}()

	code, out, _ := lab(t, "", "list", "-o", "json")
	var hosts []labHost
	if err := json.Unmarshal([]byte(out), &hosts); code != exitDone || err != nil || len(hosts) != 1 {
		t.Fatalf("list: %d, %v, %s", code, err, out)
	}
	if h := hosts[0]; h.Name != "node-1" || h.OS != host.DefaultOS || h.State != "running" || !h.Kept {
		t.Errorf("listed as %+v", h)
	}
	if code, out, _ := lab(t, "", "list"); code != exitDone || !strings.Contains(out, "node-1") {
		t.Errorf("list: %d, %s", code, out)
	}
	if code, out, errOut := lab(t, "cat /media/usb/bundle", "enter", "node-1", "--", "bash", "-s"); code != exitDone || out != "carried by hand" {
		t.Errorf("enter with a script: %d, %q, %s", code, out, errOut)
	}
	if code, _, _ := lab(t, "", "enter", "node-1", "--", "sh", "-c", "exit 42"); code != 42 {
		t.Errorf("exit code is %d, want that of the command", code)
	}
	if code, _, errOut := lab(t, "", "boot", "node-1"); code != exitFailed || !strings.Contains(errOut, "lab remove node-1") {
		t.Errorf("a second boot: %d, %s", code, errOut)
	}
}

func TestLabWrongUsage(t *testing.T) {
	labState(t)
	for _, tt := range []struct {
		behaviour string
		args      []string
		code      int
		says      string
	}{
		{"boot needs a name", []string{"boot"}, exitUsage, "accepts 1 arg"},
		{"a host's name is a DNS label", []string{"boot", "Node_1"}, exitFailed, "small letters"},
		{"the system must be known", []string{"boot", "a", "--os", "plan-9"}, exitFailed, "debian-12 or debian-13"},
		{"enter needs a host that exists", []string{"enter", "nobody"}, exitFailed, "there is no such host"},
		{"remove needs names or --all", []string{"remove"}, exitUsage, "--all"},
		{"remove takes not both", []string{"remove", "a", "--all"}, exitUsage, "--all"},
		{"the release must be one that the lab has", []string{"build", "--kubernetes", "v1.2.3"}, exitUsage, "v1.35.4 and v1.36.3"},
		{"serve has the same releases", []string{"serve", "--kubernetes", "v1.2.3"}, exitUsage, "v1.35.4 and v1.36.3"},
		{"build needs components that exist", []string{"build", "windows-11"}, exitFailed, "windows-11"},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			if code, _, errOut := lab(t, "", tt.args...); code != tt.code || !strings.Contains(errOut, tt.says) {
				t.Errorf("code %d, %s", code, errOut)
			}
		})
	}
}
