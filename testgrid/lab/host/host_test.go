package host_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sealift/sealift/testgrid/lab/host"
)

func TestTry(t *testing.T) {
	h := host.ForTest(t, host.Spec{Name: "try", OS: os.Getenv("OSN")})
	out, err := h.Output(t.Context(), "sh", "-c", "hostname; ip route; ip addr; cat /etc/os-release | head -1; systemctl is-system-running; mount | grep cgroup; systemctl --failed; id; pwd; env; cat /etc/machine-id")
	t.Log(out, err)
	var code *exec.ExitError
	err = h.Exec(t.Context(), host.Command{Args: []string{"sh", "-c", "cat; exit 7"}, Stdin: strings.NewReader("hello"), Stdout: os.Stderr})
	t.Log(err, errors.As(err, &code))
	_ = bytes.MinRead
	_ = context.Background
}
