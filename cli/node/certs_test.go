package node_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/cli/app"
)

// TestHostOutsideClusterHasNoCertificatesToRenew runs on a host without /etc/kubernetes.
func TestHostOutsideClusterHasNoCertificatesToRenew(t *testing.T) {
	if out := must(t, "certs", "-o", "json"); out != "[]\n" {
		t.Skipf("this host is a node: %s", out)
	}
	if _, out, errOut := sealift(t, "certs"); !strings.HasPrefix(out, "FILE") || strings.Count(out, "\n") != 1 || errOut != "this host has no certificates of a cluster; run the command on a node\n" {
		t.Error(out, errOut)
	}
	root := t.TempDir()
	code, _, errOut := sealift(t, "certs", "renew", "--root", root)
	if code == app.ExitRefused {
		t.Skip("this user is not root")
	}
	if code != app.ExitFailed || !strings.Contains(errOut, "run the command on a node") {
		t.Errorf("%d, %s", code, errOut)
	}
	if code, _, errOut := sealift(t, "certs", "renew", "--root", root, "--token", "-"); code != app.ExitUsage || !strings.Contains(errOut, "stdin has no token") {
		t.Errorf("without a token on stdin: %d, %s", code, errOut)
	}
}
