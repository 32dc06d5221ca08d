// Package isolation gives tests separate networks and file systems, and checks the isolation of tenants.
package isolation

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/testing/short"
)

// Network gives the test a separate network, with no interface up. The thread that has it ends with the test.
func Network(t testing.TB) {
	t.Helper()
	short.Root(t, "a network namespace")
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
}

// Run runs a program in the network of the test and returns its output.
func Run(t testing.TB, stdin, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}
