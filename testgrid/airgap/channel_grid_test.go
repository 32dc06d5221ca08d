//go:build grid

package airgap_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/scenario"
)

// TestChannelUpdatesAddOns lets a channel adopt add-ons of the demo's cluster, and a reset remove all of it in the end.
func TestChannelUpdatesAddOns(t *testing.T) {
	r := build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	bare := n.state()
	n.must(install)
	channelKeeps(n)
	n.must("cp /usr/local/bin/sealift /var/tmp/sealift")
	n.must(resetCommand + " 2>&1")
	n.isBare(bare)
}

// adopted prints the objects of the add-ons that a channel adopts, with the UIDs and restarts that would show a recreation. It
// prints only the pods of flannel, because a new version of metrics-server recreates its pods.
const adopted = `export KUBECONFIG=/etc/kubernetes/admin.conf
{
	kubectl get namespaces/kube-flannel clusterroles/flannel clusterrolebindings/flannel apiservices/v1beta1.metrics.k8s.io -o jsonpath='{range .items[*]}{.kind} {.metadata.name} {.metadata.uid}{"\n"}{end}'
	kubectl -n kube-flannel get daemonsets,configmaps,serviceaccounts,pods -o jsonpath='{range .items[*]}{.kind} {.metadata.name} {.metadata.uid} {.status.containerStatuses[*].restartCount}{"\n"}{end}'
	kubectl -n kube-system get deployments/metrics-server services/metrics-server serviceaccounts/metrics-server -o jsonpath='{range .items[*]}{.kind} {.metadata.name} {.metadata.uid}{"\n"}{end}'
} | sort`

// theChannel lists flannel as the installer has rendered it, and a newer metrics-server, which asks less often.
var theChannel = `mkdir -p /var/tmp/channel && cd /var/tmp/channel
cp -r /var/lib/sealift/kustomize/flannel /var/lib/sealift/kustomize/metrics-server .
sed -i 's/--metric-resolution=15s/--metric-resolution=20s/' metrics-server/deployment.yaml
grep -q resolution=20s metrics-server/deployment.yaml
cat >addons.yaml <<-'END'
	kind: Addons
	metadata: {name: site}
	spec:
	  addons:
	  - {name: flannel, version: ` + currentNetwork + `, manifest: flannel/}
	  - {name: metrics-server, version: 0.9.1, manifest: metrics-server/}
END
`

// channelKeeps hands flannel and metrics-server to a channel and back to the installer, and kills every command on the way until
// ten of them have died.
func channelKeeps(n node) {
	const channel = "export KUBECONFIG=/etc/kubernetes/admin.conf; cd /var/tmp/channel; "
	const plan = channel + "sealift channel plan -f addons.yaml"
	const resolution = kubectl + "-n kube-system get deployment metrics-server -o jsonpath='{.spec.template.spec.containers[0].args}'"
	n.must(theChannel)
	before := n.must(adopted)
	undisturbed := func(when string) {
		n.t.Helper()
		if now := n.must(adopted); now != before {
			n.t.Errorf("%s, objects were recreated or restarted:\n%s", when, strings.Join(scenario.Differences(strings.Split(before, "\n"), strings.Split(now, "\n")), "\n"))
		}
	}
	n.says(plan, "adopt\tit is adopted from the installer, which applied version "+currentNetwork+"\n", "it is adopted from the installer, which applied version 0.9.0; version 0.9.1 is newer than 0.9.0\n")
	n.says(channel+"sealift channel get", "0.9.0\t-\t-\tinstaller\t-\n")

	moments := seeded(n.t)
	took := map[string]time.Duration{} // each command, when nothing killed it
	kills := 0
	for round := 0; kills < 10; round++ {
		if round == 20 {
			n.t.Fatalf("only %d kills in %d rounds", kills, round)
		}
		for _, step := range []struct{ command, got, want string }{
			{"sealift channel apply -f addons.yaml --adopt flannel,metrics-server --yes", "--metric-resolution=20s", "kube-system/addon-"},
			{"sealift channel release flannel metrics-server --yes", "--metric-resolution=20s", "sealift/"},
		} {
			for range 3 {
				moment := 0.05 + moments.Float64()*cmp.Or(took[step.command], 2500*time.Millisecond).Seconds()
				_, code := n.run(fmt.Sprintf("%s timeout --signal=KILL %.3f %s; exit $?", channel, moment, step.command))
				if code == 137 {
					kills++
				}
				undisturbed("after a kill of " + step.command)
			}
			began := time.Now()
			n.must(channel + step.command)
			took[step.command] = time.Since(began)
			undisturbed("after " + step.command)
			n.says(resolution, step.got)
			for _, name := range []string{"flannel", "metrics-server"} {
				n.says(kubectl+"-n kube-system get configmap addon-"+name+" -o jsonpath='{.data.set}'", step.want+name)
			}
			if strings.Contains(step.command, "apply") {
				n.says(install+" 2>&1", "add-on flannel is kept by channel kube-system/flannel at version "+currentNetwork+": its objects are left alone", "add-on metrics-server is kept by channel kube-system/metrics-server at version 0.9.1", "nothing to do")
				n.says("cd /media/usb && cat install.sh | bash -s airgap --plan 2>&1", "add-on metrics-server is kept by channel kube-system/metrics-server at version 0.9.1")
				n.says(resolution, step.got)
				n.must(kubectl + "-n kube-system rollout status deployment/metrics-server --timeout=180s && sealift status")
			}
		}
	}
	n.t.Logf("%d kills", kills)
	n.says(plan, "keep\tit was released to the installer; --adopt flannel adopts it again\n")
	n.says("cd /media/usb && cat install.sh | bash -s airgap --plan 2>&1", "run its hook metrics-server again, since channel kube-system/metrics-server gave it back")
	n.says(install+" 2>&1", "metrics-server/install: done in ", "flannel/install: done in ")
	undisturbed("after the installer has them again")
	n.says(resolution, "--metric-resolution=15s")
	n.says(channel+"sealift channel get", "0.9.0\t-\t-\tinstaller\t-\n")
	secondRun(n)
	n.must("sealift status && rm -r /var/tmp/channel")
}

// says runs a script that must succeed, and checks its output.
func (n node) says(script string, want ...string) {
	n.t.Helper()
	out := n.must(script)
	for _, text := range want {
		if !strings.Contains(out, text) {
			n.t.Errorf("%s: want %q in\n%s", script, text, out)
		}
	}
}
