//go:build grid

package airgap_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/mirror"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// conformanceFocus selects conformance tests of most groups whose pods run agnhost, busybox and pause.
const conformanceFocus = `\[sig-node\] (ConfigMap|Secrets|Downward API|Pods|Variable Expansion|Containers|InitContainer|Probing|Lease|PodTemplates)` +
	`|\[sig-storage\] (ConfigMap|Secrets|EmptyDir volumes|Projected|Downward API)` +
	`|\[sig-network\] (DNS|Services|EndpointSlice|Proxy)|\[sig-auth\]` +
	`|\[sig-api-machinery\] (ResourceQuota|Garbage|Watchers|Namespaces|Discovery|server version)`

// TestDemoClusterIsConformant runs conformance tests of Kubernetes on the demo's cluster, on a host without a route out. The
// images of the tests are in a package.
func TestDemoClusterIsConformant(t *testing.T) {
	r := build(t, current, "debian-12")
	compile(t, r.dir(), "./cmd/sealift-testgrid")
	dir := t.TempDir()
	suite := component(t, upstream.FileOf{Component: upstream.ConformanceTests(), Name: "e2e.test"})
	wanted := "grep -F"
	for _, image := range upstream.ConformanceImages() {
		wanted += " -e " + shellword.Quote(image.Ref)
	}
	shell(t, dir, "cp "+suite+" . && mkdir -p add-ons/conformance-images/"+current+" && cd add-ons/conformance-images/"+current+" && "+
		r.dir()+`/sealift-testgrid conformance images --e2e `+suite+" | "+wanted+` >Manifest && echo 'conformance_images() { :; }' >install.sh`)
	r.mirrored(t, mirror.Options{Images: slices.Concat(upstream.Images("v"+current), upstream.ConformanceImages())}, func() {
		r.run(t, "build", filepath.Join(dir, "add-ons/conformance-images/"+current), "--out", dir, "--config", r.config, "--cache", r.cache)
	})
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb, r.dir(), dir}}), t}
	n.must(install)
	n.must("sealift images load /media/usb3/conformance-images-" + current + ".tar.gz --all-nodes")
	const run = "cd /root && HOME=/root /media/usb2/sealift-testgrid conformance --kubeconfig /etc/kubernetes/admin.conf --e2e /media/usb3/e2e.test --out report --parallel 4 --timeout 10m "
	n.must(run + "--quick 2>&1")
	out, code := n.run(run + "--focus " + shellword.Quote(conformanceFocus) + ` --skip '\[Serial\]' -o json 2>run.log >list.json; code=$?; tail -n 20 run.log; exit $code`)
	var list gridReport
	if text := n.must("cat /root/list.json"); json.Unmarshal([]byte(text), &list) != nil {
		t.Fatal(out)
	}
	t.Logf("%s, exit code %d", list.Counts, code)
	t.Log(n.must("grep -o '[0-9]* of [0-9]* conformance tests[^<]*' /root/report/index.html"))
	for _, c := range list.Cells {
		if reason := c.Reason(); reason != "" {
			t.Logf("%s: %s", c.Name, strings.SplitN(reason, "\n", 2)[0])
		}
	}
	if list.Counts.Failed > 0 || list.Counts.Passed < 100 {
		t.Errorf("%s: want 100 or more to pass, and none to fail", list.Counts)
	}
}
