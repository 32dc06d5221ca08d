package service

import (
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/host/textfile"
)

// TestUnitsNameAnyRoot checks what systemd would expand, according to systemd.service(5).
func TestUnitsNameAnyRoot(t *testing.T) {
	for root, want := range map[string]string{
		"/var/lib/kurl": `--root "/var/lib/kurl"`, "/srv/%h/$HOME": `--root "/srv/%%h/$$HOME"`, `/a "b"\c`: `--root "/a \"b\"\\c"`,
		"/new\nExecStart=/bin/x": `--root "/new\nExecStart=/bin/x"`,
	} {
		if text := Sharer(root).Text; !strings.Contains(text, want+"\n") || strings.Count(text, "\nExecStart=") != 1 {
			t.Errorf("for %q:\n%s", root, text)
		}
	}
}

func TestAgentAsksControlPlanesForImages(t *testing.T) {
	const want = ` node agent --root "/r" --mirror` + "\n"
	if text := AgentWith("/r", AgentOptions{Metrics: textfile.DefaultFolder, Mirror: true}).Text; !strings.Contains(text, want) {
		t.Error(text)
	}
}

// TestAgentWritesMetricsByDefault: a unit that changes is installed again, so the default has no flag.
func TestAgentWritesMetricsByDefault(t *testing.T) {
	for folder, want := range map[string]string{
		"/var/lib/node_exporter/textfile_collector": ` node agent --root "/r"` + "\n",
		"/srv/100%/metrics":                         ` node agent --root "/r" --metrics "/srv/100%%/metrics"` + "\n", "": ` node agent --root "/r" --metrics ""` + "\n",
	} {
		if text := AgentWith("/r", AgentOptions{Metrics: folder}).Text; !strings.Contains(text, want) {
			t.Errorf("for %q:\n%s", folder, text)
		}
	}
}

// TestServicesFindHostPrograms: DefaultEnvironment of systemd-system.conf(5) can give units another PATH.
func TestServicesFindHostPrograms(t *testing.T) {
	for _, u := range []Unit{Balancer("/r"), Sharer("/r"), Agent("/r"), Snapshots{}.Units("/r")[0]} {
		if !strings.Contains(u.Text, "\nEnvironment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n") {
			t.Errorf("%s:\n%s", u.Name, u.Text)
		}
	}
}

func TestServicesHaveMemoryLimit(t *testing.T) {
	for _, u := range []Unit{Balancer("/r"), Sharer("/r"), Agent("/r"), Snapshots{}.Units("/r")[0]} {
		if !strings.Contains(u.Text, "\nMemoryMax=") || strings.Contains(u.Text, "%!") {
			t.Errorf("%s:\n%s", u.Name, u.Text)
		}
	}
}

func TestSnapshotsAreSavedByTimer(t *testing.T) {
	units := Snapshots{Every: 90 * time.Minute, Keep: 3, Store: "/mnt/%h", Key: "age1x"}.Units("/var/lib/sealift")
	for i, wants := range [][]string{{
		`snapshot save --root "/var/lib/sealift" --store "/mnt/%%h" --key "age1x"` + "\n" + `ExecStopPost=/usr/local/bin/sealift snapshot prune --keep 3 --store "/mnt/%%h"` + "\n",
		"\nRequiresMountsFor=\"/mnt/%%h\"\n\n[Service]\n", "\nTimeoutStartSec=21600s\n",
	}, {"OnUnitActiveSec=5400s\n"}} {
		for _, want := range wants {
			if !strings.Contains(units[i].Text, want) {
				t.Errorf("%s lacks %q:\n%s", units[i].Name, want, units[i].Text)
			}
		}
	}
	if text := (Snapshots{Store: "/s", Volumes: true}).Units("/r")[0].Text; !strings.Contains(text, ` --key "" --volumes`+"\n") {
		t.Errorf("volumes are not saved:\n%s", text)
	}
	if text := (Snapshots{Store: "s3://bucket/prefix"}).Units("/r")[0].Text; strings.Contains(text, "RequiresMountsFor") {
		t.Errorf("a bucket is not a folder:\n%s", text)
	}
}
