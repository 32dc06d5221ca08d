//go:build grid

package airgap_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// The image of the add-ons is in the bundle that all hosts are made of. The other one is in a package that only one host has.
var (
	fleetImage = "docker.io/library/busybox:1.35.0"
	laterImage = "registry.k8s.io/kube-proxy:v" + previous
)

// fleetProgram is the program of hubs and agents. It is on the second USB disk.
const fleetProgram = "/media/usb2/sealift-controller fleet "

// fleetAddOn is an add-on with a template. The canary is rome.
const fleetAddOn = `
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: global, namespace: default}
spec: {clusterSet: global}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: all, namespace: default}
spec:
  tolerations: [{operator: Exists}]
  decisionStrategy:
    groupStrategy:
      decisionGroups: [{groupName: canary, groupClusterSelector: {labelSelector: {matchLabels: {name: rome}}}}]
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: hello}
spec:
  addonName: hello
  agentSpec:
    workload:
      manifests:
      - apiVersion: apps/v1
        kind: Deployment
        metadata: {name: hello, namespace: default}
        spec:
          selector: {matchLabels: {app: hello}}
          template:
            metadata: {labels: {app: hello}}
            spec:
              terminationGracePeriodSeconds: 0
              containers:
              - {name: hello, image: "IMAGE", command: [sh, -c, "echo {{VERSION}} on {{CLUSTER_NAME}}; exec sleep 100000"]}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: hello}
spec:
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {name: hello}}
  - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs, defaultConfig: {name: hello, namespace: default}}
  installStrategy:
    type: Placements
    placements:
    - name: all
      namespace: default
      rolloutStrategy: {type: Progressive, progressive: {maxConcurrency: 1, mandatoryDecisionGroups: [{groupName: canary}]}}
`

// fleetConfig is the configuration of the add-on in one version.
const fleetConfig = `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnDeploymentConfig
metadata: {name: hello, namespace: default}
spec: {agentInstallNamespace: "", customizedVariables: [{name: VERSION, value: %q}]}
`

// fleetChart is an add-on with a chart, with the same canary. Cluster API is a definition of its one kind here.
const fleetChart = `
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmChartProxy
metadata:
  name: web
  namespace: default
  annotations:
    fleet.sealift.dev/rollout: |
      rolloutStrategy: {type: Progressive, progressive: {maxConcurrency: 1, mandatoryDecisionGroups: [{groupName: canary}]}}
      decisionGroups: [{groupName: canary, groupClusterSelector: {labelSelector: {matchLabels: {name: rome}}}}]
spec:
  clusterSelector: {}
  repoURL: file:///media/usb3
  chartName: web
  version: 1.0.0
  releaseName: web
  namespace: web
  options: {wait: true, timeout: 5m}
  valuesTemplate: "text: {{ .Cluster.metadata.name }}"
`

// write writes a file of a host.
func (n node) write(name, text string) {
	n.t.Helper()
	if err := n.Exec(n.t.Context(), host.Command{Args: []string{"tee", name}, Stdin: strings.NewReader(text), Stdout: new(bytes.Buffer)}); err != nil {
		n.t.Fatal(err)
	}
}

// applies applies objects to the cluster of a host.
func (n node) applies(text string) {
	n.t.Helper()
	n.write("/root/objects.yaml", text)
	n.must("for i in $(seq 60); do " + kubectl + "apply -f /root/objects.yaml && exit 0; sleep 1; done; exit 1") // a kind may be new
}

// within waits until a script succeeds.
func (n node) within(seconds int, script string) {
	n.t.Helper()
	if out, code := n.run(fmt.Sprintf("for i in $(seq %d); do if out=$( { %s; } 2>&1); then exit 0; fi; sleep 1; done; echo \"$out\"; exit 1", seconds, script)); code != 0 {
		n.t.Fatalf("not within %d s: %s\n%s", seconds, script, out)
	}
}

// service runs a part of a fleet as a service that survives a boot.
func (n node) service(name, args string) {
	n.t.Helper()
	n.write("/etc/systemd/system/"+name+".service", "[Unit]\nAfter=containerd.service\n[Service]\nExecStart="+fleetProgram+args+" --kubeconfig /etc/kubernetes/admin.conf\nRestart=always\nRestartSec=2\n[Install]\nWantedBy=multi-user.target\n")
	n.must("systemctl daemon-reload && systemctl enable --now " + name)
}

// member joins the cluster of a host to the fleet, for its agent and for charts.
func (n node) member(hub node, name string) {
	n.t.Helper()
	hub.must(fleetProgram + "join " + name + " --kubeconfig /etc/kubernetes/admin.conf --server https://" + hub.Address().String() + ":6443 --label name=" + name + " --out /root/" + name + ".kubeconfig")
	hub.must(kubectl + "patch managedcluster " + name + ` --type merge --patch '{"spec":{"leaseDurationSeconds":4}}'`)
	n.write("/root/hub.kubeconfig", hub.must("cat /root/"+name+".kubeconfig"))
	n.service("fleet-agent", "agent --hub-kubeconfig /root/hub.kubeconfig")
	hub.write("/root/"+name+".admin", n.must("sed 's#server: .*#server: https://"+n.Address().String()+":6443#' /etc/kubernetes/admin.conf"))
	hub.must(kubectl + "create secret generic " + name + "-kubeconfig --from-file=value=/root/" + name + ".admin")
	hub.applies("apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: " + name + ", namespace: default, labels: {name: " + name + "}}\n")
}

// has is a script that reports whether the add-on with the template runs in a version on the cluster of a host.
func (n node) has(version string) string {
	return kubectl + "rollout status deployment/hello --timeout=1s && " + kubectl + "logs deployment/hello | grep -q '^" + version + " on '"
}

// TestFleetWorksWithoutRoute uses a hub and two clusters that were made from one bundle, on hosts without a route out. An add-on with a
// template, whose image has its digest there, and one with a chart reach the canary first. One host has no power in the middle of a
// change.
func TestFleetWorksWithoutRoute(t *testing.T) {
	r := build(t, current, "debian-12")
	compile(t, r.dir(), "./cmd/sealift-controller")
	usb := []string{r.watched(t, "1.0", fleetImage), r.dir(), t.TempDir()}
	r.watched(t, "2.0", laterImage)
	place(t, filepath.Join(usb[2], "web-1.0.0.tgz"), fixture.ChartArchive(t, "web", map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"templates/web.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n" +
			"    spec:\n      terminationGracePeriodSeconds: 0\n      containers: [{name: web, image: " + fleetImage + ", command: [sh, -c, 'echo {{ .Values.text }}; exec sleep 100000']}]\n",
	}))
	boot := func(disks ...string) node { return node{lab.Host(t, host.Spec{USB: disks}), t} }
	hub, oslo, rome, worker := boot(usb...), boot(usb...), boot(usb...), boot()
	var installs sync.WaitGroup
	for _, n := range []node{hub, oslo, rome} {
		installs.Go(func() {
			if out, code := n.run(install); code != 0 {
				t.Errorf("install of %s: exit %d\n%s", n.Name(), code, out)
			}
		})
	}
	installs.Wait()
	if t.Failed() {
		return
	}
	worker.must(rome.joinCommand(""))
	rome.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	imagesReachAllNodes(rome, worker)

	hub.service("fleet-hub", "hub --listen "+hub.Address().String()+":9443 --chart-scheme file --store /media/usb2/watcher-1.0/packages")
	hub.within(120, kubectl+"get helmchartproxies,managedclusters,clustermanagementaddons")
	hub.applies(fixture.ClusterDefinition)
	oslo.member(hub, "oslo")
	rome.member(hub, "rome")
	hub.must(kubectl + "wait managedcluster oslo rome --for=condition=ManagedClusterConditionAvailable --timeout=120s")

	hub.applies(strings.ReplaceAll(fleetAddOn, "IMAGE", fleetImage) + "---" + fmt.Sprintf(fleetConfig, "one"))
	hub.applies(fleetChart)
	rome.within(120, rome.has("one"))
	oslo.within(120, oslo.has("one"))
	for what, script := range map[string]string{"template": "deployment/hello", "chart": "--namespace web deployment/web"} {
		created := kubectl + "get " + script + " -o jsonpath='{.metadata.creationTimestamp}'"
		rome.within(180, kubectl+"rollout status "+script+" --timeout=1s")
		oslo.within(180, kubectl+"rollout status "+script+" --timeout=1s")
		if first, second := rome.must(created), oslo.must(created); first > second {
			t.Errorf("%s: the canary got it at %s, and oslo at %s", what, first, second)
		}
	}
	hub.must(kubectl + "wait helmreleaseproxies --all --for=condition=Ready --timeout=180s")

	for _, n := range []node{oslo, rome} {
		if image := n.must(kubectl + "get deployment hello -o jsonpath='{.spec.template.spec.containers[0].image}'"); !strings.HasPrefix(image, fleetImage+"@sha256:") {
			t.Errorf("%s runs %s", n.Name(), image)
		}
	}

	powerLost(t, hub, oslo, rome)
	for _, n := range []node{oslo, rome} {
		n.pulled()
		n.refuses("ip route get 1.1.1.1", 2, "unreachable")
	}
	hub.must(kubectl + "wait helmreleaseproxies --all --for=condition=Ready --timeout=180s")
	t.Log(hub.must(fleetProgram + "clusters --kubeconfig /etc/kubernetes/admin.conf; " + fleetProgram + "status --kubeconfig /etc/kubernetes/admin.conf"))
}

// imagesReachAllNodes loads the images of a package on two nodes. Nobody carries the package to the second one.
func imagesReachAllNodes(first, worker node) {
	const load = "sealift images load /media/usb2/watcher-2.0/packages/watcher-2.0.tar.gz --all-nodes"
	there := "ctr --namespace k8s.io images ls -q | grep -qx " + laterImage
	if _, code := worker.run(there); code == 0 {
		first.t.Errorf("%s has %s before anybody loaded it", worker.Name(), laterImage)
	}
	first.run("timeout --signal=KILL 3 " + load) // a kill does no harm
	for range 2 {
		out := first.must(load + " 2>&1")
		if !strings.Contains(out, "all images are on ") || !strings.Contains(out, worker.Name()) || !strings.Contains(out, first.Name()) {
			first.t.Errorf("it says:\n%s", out)
		}
	}
	first.must(there)
	worker.must(there)
	first.must("[ -z \"$(ls /var/lib/sealift/state/shelf)\" ]")
	worker.refuses(load, 1, "")
}

// powerLost changes the add-on while a host has no power. The canary gets the change, and the host when it is back.
func powerLost(t *testing.T, hub, oslo, rome node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptBound)
	defer cancel()
	err := oslo.PowerCycle(ctx, func() error {
		hub.applies(fmt.Sprintf(fleetConfig, "two"))
		rome.within(180, rome.has("two"))
		hub.within(120, kubectl+"get managedcluster oslo -o jsonpath='{.status.conditions[?(@.type==\"ManagedClusterConditionAvailable\")].status}' | grep -qx Unknown")
		hub.within(60, kubectl+"get managedclusteraddon hello --namespace rome -o jsonpath='{.status.conditions[?(@.type==\"Progressing\")].reason}' | grep -qx Completed")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	oslo.within(300, oslo.has("two"))
	hub.must(kubectl + "wait managedclusteraddon/hello --namespace oslo --for=condition=Progressing=False --timeout=180s")
}
