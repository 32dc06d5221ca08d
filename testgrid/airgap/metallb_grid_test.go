//go:build grid

package airgap_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/mirror"
)

// buildWith is build for the current Kubernetes on Debian 12, with more add-ons in the Installer.
func buildWith(t *testing.T, names ...string) delivery {
	t.Helper()
	short.Skip(t, "a host of the lab")
	chosen, folders, sections := []string{"v" + current}, addOns(current), ""
	for _, name := range names {
		newest := releases.Newest(name)
		folders = append(folders, name+"/"+newest.Version)
		chosen = append(chosen, name+"/"+newest.Version)
		sections += "\n  " + name + ":\n    version: " + newest.Version
	}
	return deliveries.once(t, current+"-with-"+strings.Join(names, "-"), func(r delivery) {
		r.mirrored(t, mirror.Of(chosen...), func() {
			args := []string{"build", "--out", r.packages, "--target", "debian-12", "--config", r.config, "--cache", r.cache}
			for _, folder := range folders {
				args = append(args, "addons/"+folder)
			}
			r.run(t, args...)
		})
		demo, err := os.ReadFile(filepath.Join(repository, "testgrid/demo/installer.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		r.bundle(t, strings.TrimSpace(string(demo))+sections+"\n")
	})
}

// site is the word behind an install command that names the patch of writesSite.
const site = " installer-spec-file=/root/site.yaml"

// writesSite makes a patch of the Installer with one add-on's options.
func (n node) writesSite(options string) {
	n.t.Helper()
	n.must("printf 'apiVersion: sealift.dev/v1\\nkind: Installer\\nspec:\\n  " + options + "\\n' >/root/site.yaml")
}

// webService is two pods on different nodes that serve their name, behind an address of the load balancer.
const webService = `apiVersion: apps/v1
kind: Deployment
metadata: {name: names}
spec:
  replicas: 2
  selector: {matchLabels: {app: names}}
  template:
    metadata: {labels: {app: names}}
    spec:
      terminationGracePeriodSeconds: 0
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: names}}}
      containers:
      - name: web
        image: docker.io/library/busybox:1.35.0
        imagePullPolicy: IfNotPresent
        command: [sh, -c, 'hostname >/tmp/index.html && exec httpd -f -p 8080 -h /tmp']
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: names, annotations: {metallb.io/loadBalancerIPs: %s}}
spec:
  type: LoadBalancer
  selector: {app: names}
  ports: [{port: 80, targetPort: 8080}]
`

// reads is a script for a host without curl that prints what an address serves on port 80.
func reads(address string) string {
	return `timeout 3 bash -c 'exec 3<>/dev/tcp/` + address + `/80; printf "GET / HTTP/1.0\r\n\r\n" >&3; cat <&3' 2>/dev/null | tail -n 1 | grep names-`
}

// settled is a script that waits until twenty requests in a row are answered.
func settled(address string) string {
	return "n=0; for i in $(seq 200); do if " + reads(address) + "; then n=$((n + 1)); else n=0; fi; [ $n -lt 20 ] || exit 0; done; exit 1"
}

// announcer returns the hardware address from which a host gets the packets of another address, after a request.
func (n node) announcer(address string) string {
	n.t.Helper()
	n.must("for i in $(seq 60); do " + reads(address) + " && exit 0; sleep 1; done; exit 1")
	return strings.TrimSpace(n.must("ip neighbour show " + address + " | awk '{print $5}'"))
}

// hardware returns the hardware address of a host.
func (n node) hardware() string {
	n.t.Helper()
	return strings.TrimSpace(n.must("cat /sys/class/net/host0/address"))
}

// TestAddressMovesToAnotherNode uses a cluster of two nodes that give a Service an address. A third host reads from it, also after the node
// that announces it was cut off. Then the page of the add-on is followed, to its removal.
func TestAddressMovesToAnotherNode(t *testing.T) {
	r, without := buildWith(t, "metallb"), build(t, current, "debian-12")
	first := node{lab.Host(t, host.Spec{USB: []string{r.usb, without.usb}}), t}
	worker, outside := node{lab.Host(t, host.Spec{}), t}, node{lab.Host(t, host.Spec{}), t}
	var pool []string
	for number := range 8 {
		pool = append(pool, outside.another(10+number))
	}
	first.writesSite("metallb: {addresses: [10.0.0.1]}")
	first.refuses(install+site, 3, "metallb.addresses has 10.0.0.1; write a range such as")
	first.writesSite("metallb: {addresses: [" + strings.Join(pool, "/32, ") + "/32]}")
	began := time.Now()
	worker.must(workerCommand(t, first.must(install+site)))
	t.Logf("both nodes took %s", time.Since(began).Round(time.Second))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	first.must(kubectl + "--namespace metallb-system rollout status daemonset/metallb-speaker --timeout=180s")

	address := first.announcesFromWorker(pool, worker, outside)
	t.Logf("before: %s", first.must(kubectl+"--namespace metallb-system get servicel2statuses"))
	worker.must("ip link set host0 down")
	cut := time.Now()
	outside.must("for i in $(seq 300); do " + reads(address) + " && exit 0; sleep 0.2; done; exit 1")
	t.Logf("%s answers again %s after its node was cut off", address, time.Since(cut).Round(100*time.Millisecond))
	if got := outside.announcer(address); got != first.hardware() {
		t.Errorf("%s answers for %s, want %s of %s", got, address, first.hardware(), first.Name())
	}
	first.must(kubectl + "wait --for=condition=Ready=Unknown node/" + worker.Name() + " --timeout=180s")
	outside.must(settled(address)) // no request goes to the node that is cut off any more
	worker.must("ip link set host0 up")
	first.must(kubectl + "wait --for=condition=Ready node/" + worker.Name() + " --timeout=180s")
	first.must(kubectl + "--namespace metallb-system rollout status daemonset/metallb-speaker --timeout=180s")
	outside.must(settled(address))
	first.pulled()
	if out := first.must(install + site); !strings.Contains(out, "nothing to do") {
		t.Errorf("second run:\n%s", out)
	}
	first.must(kubectl + "delete deployment/names service/names")
	first.followsAddOn("addons/metallb.md", pool[0])
	first.leaves("metallb")
}

// announcesFromWorker makes the Service with an address that the worker announces: which node does so depends on the address.
func (n node) announcesFromWorker(pool []string, worker, outside node) string {
	n.t.Helper()
	for _, address := range pool {
		n.must(kubectl + "delete service names --ignore-not-found && " + kubectl + "apply -f - <<'END'\n" + fmt.Sprintf(webService, address) + "END")
		n.must(kubectl + "rollout status deployment/names --timeout=180s")
		from := outside.announcer(address)
		n.t.Logf("%s announces %s", from, address)
		if from == worker.hardware() {
			return address
		}
	}
	n.t.Fatalf("%s announces none of %s", worker.Name(), pool)
	return ""
}

// followsAddOn runs the commands of an add-on's page on a control plane whose second USB disk has a bundle without the add-on. address is
// the first one of the pool of metallb.
func (n node) followsAddOn(page, address string) {
	n.t.Helper()
	follow(n.t, page, func(command string) (node, string) {
		switch {
		case strings.HasPrefix(command, "kubectl run refused "):
			command = "export KUBECONFIG=/etc/kubernetes/admin.conf; " + command + " 2>&1 || [ $? = 1 ]"
		case strings.Contains(command, "kubectl "):
			command = "export KUBECONFIG=/etc/kubernetes/admin.conf; " + command
		case strings.HasPrefix(command, "sealift upgrade "):
			command += " --yes"
		}
		return n, strings.ReplaceAll(command, "10.90.210.1", address)
	})
}

// leaves waits until the cluster has no object whose name matches a pattern of grep, but for Sealift's own record of the add-on's set: pods
// end after what made them.
func (n node) leaves(pattern string) {
	n.t.Helper()
	const kinds = "namespaces,all,configmaps,secrets,serviceaccounts,clusterroles,clusterrolebindings,roles,rolebindings,poddisruptionbudgets,ingressclasses," +
		"validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings,customresourcedefinitions"
	left := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Second) {
		if left = n.must(kubectl + "get " + kinds + " -A --no-headers 2>/dev/null | grep -i '" + pattern + "' | grep -v '^sealift ' || true"); left == "" {
			return
		}
	}
	n.t.Errorf("there is left:\n%s", left)
}
