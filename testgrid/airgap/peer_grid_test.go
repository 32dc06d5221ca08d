//go:build grid

package airgap_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/imagepackage"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

const (
	// application and a number name images that no registry has.
	application = "registry.example.com/shop/model:"
	// applicationLayers have applicationLayer bytes each: 500 MB in all.
	applicationLayers = 4
	applicationLayer  = 125_000_000
	applicationSize   = applicationLayers * applicationLayer
)

// TestNodesGiveApplicationToEachOther adds an image of 500 MB to the control plane of a cluster with three workers, lets the kubelets of all
// pull it at once, and counts what each host sends. Then it pulls while workers cannot reach each other.
func TestNodesGiveApplicationToEachOther(t *testing.T) {
	r := build(t, current, "debian-12")
	usb := r.part(t, "mirrored", func(dir string) {
		demo, err := os.ReadFile(filepath.Join(repository, "testgrid/demo/installer.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(demo), "version: "+currentRuntime, "version: "+currentRuntime+"\n    mirror: true", 1)
		with := r
		with.usb = dir
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		with.bundle(t, text)
	})
	images := t.TempDir()
	for tag, layer := range map[string]int64{"1": applicationLayer, "2": applicationLayer / 25} {
		if err := imagepackage.WriteLayout(filepath.Join(images, tag), application+tag, applicationLayers, layer); err != nil {
			t.Fatal(err)
		}
	}
	first := node{lab.Host(t, host.Spec{USB: []string{usb, images}}), t}
	nodes := []node{first}
	command := workerCommand(t, first.must(install))
	for range 3 {
		worker := node{lab.Host(t, host.Spec{}), t}
		worker.must(command)
		nodes = append(nodes, worker)
	}
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	for _, n := range nodes[1:] {
		n.within(180, "grep Sealift-Direct /etc/containerd/certs.d/_default/hosts.toml && ss -Hltn | grep :6445")
	}

	first.must("sealift images add /media/usb2/1 2>&1")
	before := sentBy(nodes)
	began := time.Now()
	first.pullsEverywhere(nodes, "1")
	took := time.Since(began)
	total := 0.0
	for i, bytes := range sentBy(nodes) {
		times := float64(bytes-before[i]) / applicationSize
		total += times
		t.Logf("%s sent %.3f times the image", nodes[i].Name(), times)
		if times > 2 {
			t.Errorf("%s sent %.3f times the image", nodes[i].Name(), times)
		}
	}
	t.Logf("%.3f times the image in all, in %s", total, took)
	if total > 3.05 {
		t.Errorf("%.3f times the image in all", total)
	}

	// a firewall between the workers, which the control plane does not notice
	for _, n := range nodes[1:] {
		for _, other := range nodes[1:] {
			if other.Name() != n.Name() {
				n.must("ip route add blackhole " + other.Address().String() + "/32")
			}
		}
	}
	first.must("sealift images add /media/usb2/2 2>&1")
	first.pullsEverywhere(nodes, "2")

	worker := nodes[3]
	worker.must("sealift reset --yes 2>&1")
	worker.must("! ss -Hltn | grep :6445; test ! -e /etc/containerd/certs.d/_default")
}

// sentBy returns how many bytes each host has sent to others, with the headers of packets.
func sentBy(nodes []node) (sent []int64) {
	for _, n := range nodes {
		bytes, err := strconv.ParseInt(strings.TrimSpace(n.must("cat /sys/class/net/host0/statistics/tx_bytes")), 10, 64)
		if err != nil {
			n.t.Fatal(err)
		}
		sent = append(sent, bytes)
	}
	return sent
}

// pullsEverywhere lets the kubelet of each node pull an image. It has no program, so its containers do not start: the image is there.
func (n node) pullsEverywhere(nodes []node, tag string) {
	n.t.Helper()
	for _, on := range nodes {
		n.must(fmt.Sprintf(kubectl+"run model-%s-%s --image %s --restart Never --overrides '{\"spec\":{\"nodeName\":\"%s\"}}'", tag, on.Name(), application+tag, on.Name()))
	}
	for _, on := range nodes {
		on.within(600, "ctr --namespace k8s.io images check name=="+application+tag+" | grep -w complete")
	}
}
