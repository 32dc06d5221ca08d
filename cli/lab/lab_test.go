package lab

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// labState gives the commands a rack of their own.
func labState(t *testing.T) {
	t.Helper()
	short.Root(t, "hosts of the lab")
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

// command runs one lab command line.
func command(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = app.Run(t.Context(), "sealift-testgrid", Root, append([]string{"lab"}, args...), strings.NewReader(stdin), &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestLabHostFromBootToRemove(t *testing.T) {
	labState(t)
	usb := t.TempDir()
	if err := os.WriteFile(usb+"/bundle", []byte("carried by hand"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := command(t, "", "boot", "node-1", "--usb", usb, "--exit"); code != app.ExitDone || !strings.Contains(out, "lab enter node-1") {
		t.Fatalf("boot: %d, %s%s", code, out, errOut)
	}
	defer func() {
		if code, _, errOut := command(t, "", "remove", "--all"); code != app.ExitDone {
			t.Errorf("remove --all: %d, %s", code, errOut)
		}
		if code, out, _ := command(t, "", "list", "-o", "json"); code != app.ExitDone || strings.TrimSpace(out) != "[]" {
			t.Errorf("after remove --all there are %s", out)
		}
	}()

	code, out, _ := command(t, "", "list", "-o", "json")
	var hosts []labHost
	if err := json.Unmarshal([]byte(out), &hosts); code != app.ExitDone || err != nil || len(hosts) != 1 {
		t.Fatalf("list: %d, %v, %s", code, err, out)
	}
	if h := hosts[0]; h.Name != "node-1" || h.OS != host.DefaultOS || h.State != "running" || !h.Kept {
		t.Errorf("listed as %+v", h)
	}
	if code, out, _ := command(t, "", "list"); code != app.ExitDone || !strings.Contains(out, "node-1") {
		t.Errorf("list: %d, %s", code, out)
	}
	if code, out, errOut := command(t, "cat /media/usb/bundle", "enter", "node-1", "--", "bash", "-s"); code != app.ExitDone || out != "carried by hand" {
		t.Errorf("enter with a script: %d, %q, %s", code, out, errOut)
	}
	if code, _, _ := command(t, "", "enter", "node-1", "--", "sh", "-c", "exit 42"); code != 42 {
		t.Errorf("exit code is %d, want that of the command", code)
	}
	command(t, "", "enter", "node-1", "--", "bash", "-c", "echo hello >/dev/udp/203.0.113.7/53")
	if code, out, errOut := command(t, "", "egress", "node-1"); code != app.ExitDone || !strings.Contains(out, "203.0.113.7 port 53 (udp), 1 packets\n") {
		t.Errorf("egress: %d, %s%s", code, out, errOut)
	}
	if code, _, errOut := command(t, "", "boot", "node-1"); code != app.ExitFailed || !strings.Contains(errOut, "lab remove node-1") {
		t.Errorf("a second boot: %d, %s", code, errOut)
	}
}

func TestLabRefusesWrongUsage(t *testing.T) {
	labState(t)
	for _, tt := range []struct {
		behaviour string
		args      []string
		code      int
		says      string
	}{
		{"boot needs a name", []string{"boot"}, app.ExitUsage, "accepts 1 arg"},
		{"a host's name is a DNS label", []string{"boot", "Node_1"}, app.ExitFailed, "lower-case letters"},
		{"the system must be known", []string{"boot", "a", "--os", "plan-9"}, app.ExitFailed, "debian-12 or debian-13"},
		{"a virtual machine has whole processors", []string{"boot", "a", "--machine", "--cpus", "1.5"}, app.ExitUsage, "whole processors"},
		{"a host needs some processor", []string{"boot", "a", "--cpus", "0"}, app.ExitUsage, "from 0.01"},
		{"and a number of them", []string{"boot", "a", "--cpus", "NaN"}, app.ExitUsage, "from 0.01"},
		{"a clock is for virtual machines", []string{"boot", "a", "--clock", "2031-01-31T12:00:00Z"}, app.ExitUsage, "add --machine"},
		{"a clock is a time", []string{"boot", "a", "--machine", "--clock", "yesterday"}, app.ExitUsage, "2031-01-31T12:00:00Z"},
		{"memory is a size", []string{"boot", "a", "--machine", "--memory", "lots"}, app.ExitUsage, "256Mi"},
		{"a machine needs memory", []string{"boot", "a", "--machine", "--memory", "64Mi"}, app.ExitUsage, "256Mi"},
		{"the system of a machine must be known", []string{"boot", "a", "--machine", "--os", "debian-13"}, app.ExitFailed, "use debian-12"},
		{"a power cut needs a host that exists", []string{"power-cut", "nobody"}, app.ExitFailed, "host not found"},
		{"so does a reboot", []string{"reboot", "nobody"}, app.ExitFailed, "host not found"},
		{"enter needs a host that exists", []string{"enter", "nobody"}, app.ExitFailed, "host not found"},
		{"so does egress", []string{"egress", "nobody"}, app.ExitFailed, "host not found"},
		{"remove needs names or --all", []string{"remove"}, app.ExitUsage, "--all"},
		{"remove takes not both", []string{"remove", "a", "--all"}, app.ExitUsage, "--all"},
		{"the release must be one that the lab has", []string{"build", "--kubernetes", "v1.2.3"}, app.ExitUsage, strings.Join(upstream.Releases(), ", ")},
		{"serve has the same releases", []string{"serve", "--kubernetes", "v1.2.3"}, app.ExitUsage, strings.Join(upstream.Releases(), ", ")},
		{"so must the version of an add-on", []string{"build", "--add-on", "containerd/1.0.0"}, app.ExitUsage, strings.Join(upstream.AddOns(), ", ")},
		{"an image has a known system", []string{"image", "plan-9", "--out", "x"}, app.ExitUsage, "debian-12 or debian-13"},
		{"and a file", []string{"image", "debian-12"}, app.ExitUsage, "--out is missing"},
		{"and a name for registries", []string{"image", "debian-12", "--out", "x", "--name", "A B"}, app.ExitFailed, "the name of the image"},
		{"build needs components that exist", []string{"build", "windows-11"}, app.ExitFailed, "windows-11"},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			if code, _, errOut := command(t, "", tt.args...); code != tt.code || !strings.Contains(errOut, tt.says) {
				t.Errorf("code %d, %s", code, errOut)
			}
		})
	}
}
