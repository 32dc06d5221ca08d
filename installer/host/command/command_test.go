package command

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/fixture"
)

func TestCommandDoesNotWaitForItsDaemons(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() {
		if pid, err := os.ReadFile(dir + "/pid"); err == nil {
			_ = exec.Command("kill", strings.TrimSpace(string(pid))).Run()
		}
	})
	done := make(chan error, 1)
	go func() { done <- Run(t.Context(), io.Discard, "sh", "-c", "sleep 3600 & echo $! >"+dir+"/pid") }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("it does not end")
	}
}

// TestFailedUnitShowsItsLastLines: systemctl reports that a unit failed, and where to look (flannel-io/flannel#1437 is one of
// many reports that have nothing else).
func TestFailedUnitShowsItsLastLines(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{
		"systemctl":  "echo 'Job for containerd.service failed.' >&2\nexit 1\n",
		"journalctl": `case "$*" in *" _SYSTEMD_UNIT=containerd.service") echo 'containerd: failed to load TOML: /etc/containerd/conf.d/site.toml' ;; esac` + "\n",
	} {
		if err := fixture.WriteProgram(dir+"/"+name, "#!/bin/sh\n"+script); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	const reason = "\ncontainerd.service says:\ncontainerd: failed to load TOML: /etc/containerd/conf.d/site.toml"
	for _, args := range [][]string{{"restart", "containerd"}, {"start", "containerd.service"}, {"enable", "--now", "containerd"}} {
		err := Run(t.Context(), io.Discard, "systemctl", args...)
		if err == nil || !strings.HasSuffix(err.Error(), reason) || !strings.Contains(err.Error(), "Job for containerd.service failed.") {
			t.Errorf("systemctl %v: %v", args, err)
		}
	}
	if err := Run(t.Context(), io.Discard, "systemctl", "daemon-reload"); err == nil || strings.Contains(err.Error(), "says") {
		t.Errorf("what starts nothing: %v", err)
	}
}

func TestOnlyUnitsOfHostAreRestarted(t *testing.T) {
	dir := t.TempDir()
	// systemd refuses to restart an unknown unit, even with try-restart
	script := `#!/bin/sh
case "$1:$*" in
show:*missing.service) echo not-found ;;
show:*) echo loaded ;;
try-restart:*missing.service) echo "Unit missing.service not found." >&2; exit 5 ;;
*) echo "$*" >>"` + dir + `/called" ;;
esac
`
	if err := fixture.WriteProgram(dir+"/systemctl", script); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if err := TryRestart(t.Context(), io.Discard, "a.service", "missing.service", "b.service"); err != nil {
		t.Error(err)
	}
	called, err := os.ReadFile(dir + "/called")
	if want := "try-restart a.service\ntry-restart b.service\n"; err != nil || string(called) != want {
		t.Errorf("called %q, want %q: %v", called, want, err)
	}
}
