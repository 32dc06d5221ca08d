package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// compile builds a program of this module into a folder, with the flags of 'make build', which has compiled most of it.
func compile(t *testing.T, dir, program string) {
	t.Helper()
	short.Skip(t, "a host of the lab")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", program)
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestUnitServes starts it on a host, where it has only the user, the folders and the rights that it declares.
func TestUnitServes(t *testing.T) {
	usb := t.TempDir()
	compile(t, usb, "./cmd/sealift")
	compile(t, usb, "./cmd/sealift-node")
	unit, err := os.ReadFile("systemd/sealift-server.service")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(usb, "sealift-server.service"), unit, 0o600); err != nil {
		t.Fatal(err)
	}
	h := lab.Host(t, host.Spec{USB: []string{usb}})
	must := func(script string) string {
		t.Helper()
		var out bytes.Buffer
		if err := h.Exec(t.Context(), host.Command{Args: []string{"bash", "-c", script}, Stdout: &out, Stderr: &out}); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out.String())
		}
		return out.String()
	}
	must(`cp /media/usb/sealift /media/usb/sealift-node /usr/local/bin/ && cp /media/usb/sealift-server.service /etc/systemd/system/
		mkdir -p /srv/packages /etc/sealift && printf '%s\n' SEALIFT_STORE=/srv/packages SEALIFT_LISTEN=:80 >/etc/sealift/server.env
		systemctl daemon-reload && systemctl start sealift-server`)
	// the host has no curl
	got := must(`for i in $(seq 120); do
			(exec 3<>/dev/tcp/127.0.0.1/80 && printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3 && timeout 10 cat <&3) 2>/dev/null && exit
			systemctl --quiet is-active sealift-server || break
			sleep 0.5
		done; journalctl --unit sealift-server; exit 1`)
	if !bytes.Contains([]byte(got), []byte("200 OK")) {
		t.Errorf("it answers\n%s", got)
	}
	must(`test $(stat -c %U /proc/$(systemctl show --property=MainPID --value sealift-server)) != root
		systemctl stop sealift-server; test $(systemctl show --property=Result --value sealift-server) = success || { journalctl --unit sealift-server; exit 1; }`)
}
