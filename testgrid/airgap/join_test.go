package airgap_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/scenario"
)

// joinCommand is the command that a control plane prints for a joining host.
func (n node) joinCommand(flags string) string {
	n.t.Helper()
	return strings.TrimSpace(n.must("sealift token create " + flags))
}

// TestHostJoinsWithPrintedCommand adds a worker that has nothing but the command.
func TestHostJoinsWithPrintedCommand(t *testing.T) {
	t.Parallel()
	r := build(t, current, "debian-12")
	first := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	worker := node{lab.Host(t, host.Spec{}), t}
	printed := workerCommand(t, first.must(install))
	bare := worker.state()
	joinRefusals(first, worker)
	worker.must("systemd-run --quiet --unit=first --property=KillMode=control-group bash -c " + shellword.Quote(printed))
	worker.must("for i in $(seq 3000); do [ ! -e /etc/kubernetes/bootstrap-kubelet.conf ] || exit 0; sleep 0.2; done; journalctl -u first; exit 1")
	worker.must("systemctl kill --signal=KILL first; sleep 1; sealift journal")
	if out := worker.must(printed); !strings.Contains(out, "done: ") {
		t.Errorf("the join ended without saying so:\n%s", out)
	}
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	if got := first.must(kubectl + "get nodes --no-headers"); strings.Count(got, " Ready ") != 2 {
		t.Errorf("nodes:\n%s", got)
	}
	first.must("sleep 5")
	first.pulled()
	if out := worker.must(printed); !strings.Contains(out, "nothing to do") {
		t.Errorf("second run:\n%s", out)
	}
	if out := worker.must("sealift status"); !strings.Contains(out, "cluster  answers") || !strings.Contains(out, "run 'sealift status' on a control plane") {
		t.Errorf("a worker's status:\n%s", out)
	}
	tokenGainsNothing(first, worker, joinToken(first.joinCommand("")))
	workerLeaves(first, worker, bare)
}

// joinToken is the token in a command for workers.
func joinToken(command string) string {
	_, rest, _ := strings.Cut(command, "echo '")
	token, _, _ := strings.Cut(rest, "'")
	return token
}

// workerCommand is the command for workers in the output of an install.
func workerCommand(t *testing.T, out string) string {
	t.Helper()
	for line := range strings.Lines(out) {
		if strings.Contains(line, " | bash -c ") && !strings.HasSuffix(strings.TrimSpace(line), "control-plane") {
			return strings.TrimSpace(line)
		}
	}
	t.Fatalf("the install printed no command for workers:\n%s", out)
	return ""
}

// workerLeaves resets a worker while its control plane works, follows the reset's instructions, and lets the host join again.
func workerLeaves(first, worker node, bare []string) {
	out := worker.must("sealift reset --yes 2>&1")
	if diff := scenario.Differences(bare, worker.state(), append(scenario.Kept(), " transient", "running systemd-timedated.service")...); len(diff) > 0 {
		worker.t.Errorf("the host is not what it was:\n%s\nreset said:\n%s", strings.Join(diff, "\n"), out)
	}
	name := strings.TrimSpace(worker.must("hostname"))
	command := "sealift node remove " + name
	if !strings.Contains(out, command) || strings.Contains(out, "pods of this node") {
		worker.t.Errorf("the reset of a worker said:\n%s", out)
	}
	if got := first.must(kubectl + "get node " + name + " -o jsonpath={.spec.unschedulable}"); got != "true" {
		worker.t.Errorf("pods may still go to the node that left: unschedulable is %q", got)
	}
	first.must(command + " --yes")
	worker.must(first.joinCommand(""))
	first.must(kubectl + "wait --for=condition=Ready node/" + name + " --timeout=180s")
}

// publicKey creates the public key of somebody who has signed nothing.
func publicKey(t *testing.T) string {
	t.Helper()
	_, public := fixture.SigningKey(t)
	return string(public.Marshal())
}

// joinRefusals checks what must stop a join before it changes anything.
func joinRefusals(first, worker node) {
	command := first.joinCommand("")
	token := joinToken(command)
	worker.refuses(strings.ReplaceAll(command, token, token[:7]+"0123456789abcdef"), 1, "does not know the token")
	worker.refuses(command+" control-plane", 3, "key of the cluster's certificates")
	worker.refuses(command+" kubeadm-token-ca-hash=sha256:"+strings.Repeat("0", 64), 1, "not from the CA with the given hash")
	worker.refuses(command+" kubernetes-version=1.30.0", 1, "not 1.30.0")
	worker.refuses("echo "+shellword.Quote(publicKey(worker.t))+" >/tmp/vendor.pub; ("+command+" --key /tmp/vendor.pub); code=$?; rm /tmp/vendor.pub; exit $code", 1, "is not to be trusted")
	first.must("sealift token revoke " + token[:6])
	worker.refuses(command, 1, "does not know the token")
	expired := first.joinCommand("--ttl 1s")
	first.must("sleep 2")
	worker.refuses(expired, 1, "does not know the token")
	if out, code := worker.run("ls /etc/kubernetes /usr/local/bin/sealift"); code == 0 {
		worker.t.Errorf("a refused join changed the host: %s", out)
	}
}
