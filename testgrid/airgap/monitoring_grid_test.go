//go:build grid

package airgap_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/internal/testing/docexamples"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// prometheusConfig scrapes the host itself. The alerts have no "for": the test does not wait for hours.
const prometheusConfig = `global: {scrape_interval: 5s, evaluation_interval: 5s}
rule_files: [/root/rules.yaml]
scrape_configs:
- job_name: node
  static_configs: [{targets: ["127.0.0.1:9100"]}]
`

// asksPrometheus reads an answer of Prometheus' API on a host, and reports whether there is one.
func (n node) asksPrometheus(path string, into any) bool {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 20*time.Second)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return n.Dial(ctx, network, address)
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:9090/api/v1/"+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		n.t.Logf("Prometheus does not answer yet: %v", err)
		return false
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		n.t.Fatal(err)
	}
	return true
}

// firing asks Prometheus on a host for its firing alerts, by their names, with the commands that they name.
func (n node) firing() map[string]string {
	n.t.Helper()
	var got struct {
		Data struct {
			Alerts []struct {
				State               string
				Labels, Annotations map[string]string
			}
		}
	}
	if !n.asksPrometheus("alerts", &got) {
		return nil
	}
	all := map[string]string{}
	for _, a := range got.Data.Alerts {
		if a.State == "firing" {
			all[a.Labels["alertname"]] = a.Annotations["summary"] + " → " + a.Annotations["command"]
		}
	}
	return all
}

// scrapes waits until Prometheus has the metrics of a healthy node.
func (n node) scrapes() {
	n.t.Helper()
	var got struct{ Data struct{ Result []any } }
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(2 * time.Second) {
		if n.asksPrometheus("query?query=sealift_healthy%3D%3D1", &got) && len(got.Data.Result) == 1 {
			return
		}
	}
	n.t.Fatalf("Prometheus has no metrics of a healthy node: %v", got)
}

// fires waits until exactly these alerts fire.
func (n node) fires(names ...string) map[string]string {
	n.t.Helper()
	var all map[string]string
	for end := time.Now().Add(9 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Second) {
		if all = n.firing(); all != nil && slices.Equal(slices.Sorted(maps.Keys(all)), names) {
			return all
		}
	}
	n.t.Errorf("%s\n%s", cmp.Diff(names, slices.Sorted(maps.Keys(all))), n.must("sealift status || :; "+kubectl+"get pods -A; "+kubectl+"get events -A | tail -n 30; "+kubectl+"describe nodes | grep Pressure; cat /var/lib/node_exporter/textfile_collector/sealift.prom; journalctl -u prometheus --no-pager | tail -n 20"))
	return all
}

// TestAlertsFireOnHost has node_exporter and Prometheus read what the agent of a control plane writes, and lets four things go wrong.
func TestAlertsFireOnHost(t *testing.T) {
	r := build(t, current, "debian-12")
	tools := t.TempDir()
	for _, name := range []string{"node_exporter", "prometheus"} {
		text, err := os.ReadFile(component(t, upstream.MonitoringProgram(name)))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tools, name), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	key := strings.TrimSpace(r.run(t, "snapshot", "key", "--out", filepath.Join(t.TempDir(), "snapshots.key")))
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb, tools}}), t}
	n.must("mkdir -p /var/lib/containerd && mount -t tmpfs -o size=6g,mode=0700 none /var/lib/containerd") // a disk that can shrink
	n.must(install + " snapshots.every=3m snapshots.key=" + key)
	// the service saves only while a file is there, as if it waited for its store
	n.must("mkdir -p /etc/systemd/system/sealift-snapshots.service.d && printf '[Unit]\\nConditionPathExists=/root/save\\n' >/etc/systemd/system/sealift-snapshots.service.d/save.conf")
	const save = "touch /root/save && systemctl daemon-reload && systemctl start sealift-snapshots.service && rm /root/save"
	n.must(save)
	n.must("for i in $(seq 90); do sealift status && exit 0; sleep 2; done; exit 1")
	n.within(120, "grep -q '^sealift_healthy 1' /var/lib/node_exporter/textfile_collector/sealift.prom")
	followsNodeSteps(n, "monitoring.md")

	n.write("/root/prometheus.yml", prometheusConfig)
	n.must("sealift status --alert-rules file | grep -v '^    for: ' >/root/rules.yaml")
	n.must("systemd-run --unit node-exporter --property User=nobody /media/usb2/node_exporter --web.listen-address 127.0.0.1:9100 --collector.textfile.directory /var/lib/node_exporter/textfile_collector")
	n.must("systemd-run --unit prometheus /media/usb2/prometheus --config.file /root/prometheus.yml --storage.tsdb.path /root/prometheus --web.listen-address 127.0.0.1:9090")
	n.must(save)
	n.scrapes()
	n.fires()

	authorities := n.authorities()
	const file = "/etc/kubernetes/pki/apiserver-kubelet-client.crt"
	n.must("mv /etc/kubernetes/pki/ca.key /root") // as where the CA's key is kept elsewhere: nobody renews then
	text := n.ending(authorities, []byte(n.must("cat "+file)+"\n"), time.Now().AddDate(0, 0, 20))
	n.must("base64 -d >" + file + " <<<" + base64.StdEncoding.EncodeToString(text))
	n.must("mount -o remount,size=$(($(df --block-size=1 --output=used /var/lib/containerd | tail -n 1) + (3 << 29))) /var/lib/containerd")
	n.must(fmt.Sprintf(`%screate configmap sealift-operations --namespace kube-system --from-literal=upgrade='{"id":"1","kind":"upgrade","leader":%q,"attempt":1,"began":%q,"stage":"upgrade/workers","about":"an upgrade","next":"sealift upgrade"}'`,
		kubectl, n.Name(), time.Now().Add(-4*time.Hour).UTC().Format(time.RFC3339)))
	all := n.fires("SealiftCertificateEnds", "SealiftDiskShort", "SealiftOperationStuck", "SealiftSnapshotOld")
	for name, want := range map[string]string{
		"SealiftCertificateEnds": "sudo sealift certs renew", "SealiftDiskShort": "/var/lib/containerd of 127.0.0.1:9100",
		"SealiftOperationStuck": "the change upgrade of the cluster is unfinished after 4h", "SealiftSnapshotOld": "journalctl --unit sealift-snapshots",
	} {
		t.Logf("%s: %s", name, all[name])
		if !strings.Contains(all[name], want) {
			t.Errorf("%s says %q, want %q", name, all[name], want)
		}
	}

	n.must(kubectl + "delete configmap sealift-operations --namespace kube-system && mv /root/ca.key /etc/kubernetes/pki && mount -o remount,size=6g /var/lib/containerd && systemctl stop prometheus node-exporter")
}

// followsNodeSteps runs what root runs on a node, of a page with commands of both kinds.
func followsNodeSteps(n node, page string) {
	n.t.Helper()
	for _, step := range docexamples.Steps(n.t, filepath.Join(repository, "docs", page)) {
		if step.Prompt != docexamples.Node {
			continue
		}
		if out := n.must(step.Command); !step.Shows(out) {
			n.t.Errorf("%s: # %s printed\n%s\nand the page has\n%s", page, step.Command, out, step.Want)
		}
	}
}
