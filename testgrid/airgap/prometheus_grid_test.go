//go:build grid

package airgap_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// inPrometheus runs a program in the pod of Prometheus.
const inPrometheus = kubectl + "--namespace prometheus exec deployment/prometheus -- "

// promQuery asks Prometheus in the cluster, as the page of the add-on does.
const promQuery = inPrometheus + "promtool query instant --http.config.file=/etc/prometheus/config/client.yml https://localhost:9090 "

// webhookServer writes the bodies of all requests to /root/alerts. A host has Perl, and nothing else that serves.
const webhookServer = `use IO::Socket;
my $server = IO::Socket::INET->new(LocalPort => 8099, Listen => 9, ReuseAddr => 1) or die $!;
while (my $client = $server->accept) {
    my $length = 0;
    while (defined(my $line = <$client>)) {
        $length = $1 if $line =~ /^content-length: (\d+)/i;
        last if $line =~ /^\r?\n$/;
    }
    read $client, my $body, $length;
    open my $out, '>>', '/root/alerts' or die $!;
    print $out "$body\n";
    close $out;
    print $client "HTTP/1.0 200 OK\r\n\r\n";
    close $client;
}
`

// failingMetrics is what node_exporter reads beside Sealift's file: a certificate that has ended, and a snapshot that is years late. node_exporter drops
// a metric that another file has with another type.
const failingMetrics = `# HELP sealift_certificate_end_timestamp_seconds When a certificate of this node ends.
# TYPE sealift_certificate_end_timestamp_seconds gauge
sealift_certificate_end_timestamp_seconds{file="/root/test.crt",kind="certificate",renewed_by="nobody"} 1000000000
sealift_snapshot_timestamp_seconds 1000000000
sealift_snapshot_interval_seconds 86400
`

// TestPrometheusWatchesCluster has two nodes. All targets are up, what Prometheus knows survives its pod, and alerts of a stopped kubelet, of a
// certificate and of a snapshot reach a webhook whose URL is in a Secret. Then the page of the add-on is followed, to its removal.
func TestPrometheusWatchesCluster(t *testing.T) {
	r, without := buildWith(t, "prometheus"), buildWith(t)
	first, worker := node{lab.Host(t, host.Spec{USB: []string{r.usb, without.usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	first.writesSite("prometheus: {receivers: [nobody]}")
	first.refuses(install+site, 3, "prometheus.receivers: one of them is neither a URL nor mailto:ADDRESS nor secret:KEY")
	first.writesSite(`prometheus: {receivers: ["secret:ops"], receiversFrom: alert-receivers}`)
	began := time.Now()
	joining := workerCommand(t, first.must(install+site))
	t.Logf("the node took %s", time.Since(began).Round(time.Second))
	first.must(kubectl + "--namespace prometheus rollout status deployment/prometheus --timeout 300s && " + kubectl + "--namespace prometheus rollout status deployment/alertmanager --timeout 120s")
	worker.must(joining) // after Prometheus, whose pod is on the first node
	first.watchesTargets()
	first.refusesWithoutPassword()
	first.keepsMetrics()
	first.alertsReachWebhook(worker)
	first.pulled()
	if out := first.must(install + site); !strings.Contains(out, "nothing to do") {
		t.Errorf("second run:\n%s", out)
	}
	t.Logf("memory:\n%s", first.must(kubectl+"top pods --containers -A | grep -E 'NAME|prometheus' || :; "+kubectl+"get pods -A -o wide"))
	first.followsAddOn("addons/prometheus.md", "")
	first.leaves("prometheus")
}

// watchesTargets waits until every job has its targets, and none is down.
func (n node) watchesTargets() {
	n.t.Helper()
	for job, want := range map[string]int{
		"apiserver": 1, "etcd": 1, "kube-controller-manager": 1, "kube-scheduler": 1, "kubelet": 2, "cadvisor": 2, "node": 2, "coredns": 2, "prometheus": 1, "alertmanager": 1,
	} {
		n.within(240, fmt.Sprintf(`%s'count(up{job="%s"} == 1)' | grep '=> %d @'`, promQuery, job, want))
	}
	n.within(180, promQuery+`'count(sealift_healthy)' | grep '=> 2 @'`)
	if down := n.must(promQuery + "'up == 0'"); strings.TrimSpace(down) != "" {
		n.t.Errorf("targets are down:\n%s", down)
	}
	if firing := n.must(promQuery + `'ALERTS{alertstate="firing"}'`); strings.TrimSpace(firing) != "" {
		n.t.Errorf("alerts fire:\n%s", firing)
	}
}

// refusesWithoutPassword asks both programs by TLS of the cluster's CA, without a password.
func (n node) refusesWithoutPassword() {
	n.t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(n.must("cat /etc/kubernetes/pki/ca.crt")))
	for service, port := range map[string]string{"prometheus": "9090", "alertmanager": "9093"} {
		address := strings.TrimSpace(n.must(kubectl + "--namespace prometheus get service " + service + " -o jsonpath={.spec.clusterIP}"))
		client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return n.Dial(ctx, network, net.JoinHostPort(address, port))
			},
			TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true,
		}}
		answer, err := client.Get("https://" + service + ".prometheus.svc:" + port + "/api/v2/status")
		if err != nil {
			n.t.Errorf("%s: %v", service, err)
			continue
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			n.t.Errorf("%s answers %s without a password", service, answer.Status)
		}
	}
}

// keepsMetrics deletes the pods. What Prometheus knew before is there afterwards.
func (n node) keepsMetrics() {
	n.t.Helper()
	at := strings.TrimSpace(n.must("date +%s"))
	n.must(kubectl + "--namespace prometheus delete pods --all && for i in $(seq 60); do " + kubectl + "--namespace prometheus rollout status deployment/prometheus --timeout 5s && exit 0; sleep 2; done; exit 1")
	n.within(60, strings.Replace(promQuery, "instant ", "instant --time="+at+" ", 1)+`'up{job="etcd"}' | grep '=> 1 @'`)
}

// alertsReachWebhook stops the kubelet of the worker, and has node_exporter read failing metrics. The rules do not wait ("for").
func (n node) alertsReachWebhook(worker node) {
	n.t.Helper()
	n.write("/root/webhook.pl", webhookServer)
	n.must("systemd-run --unit webhook perl /root/webhook.pl")
	n.must(kubectl + "--namespace prometheus create secret generic alert-receivers --from-literal=ops=http://" + net.JoinHostPort(n.Address().String(), "8099") + "/alerts")
	n.must(kubectl + "--namespace prometheus get configmaps -o name | grep prometheus-config | xargs " + kubectl + "--namespace prometheus get -o yaml | sed '/^ *for: /d' | " + kubectl + "replace -f -")
	n.within(180, inPrometheus+"sh -c '! grep -h \"^ *for: \" /etc/prometheus/config/rules-*.yml'")
	n.must(inPrometheus + "kill -HUP 1")
	worker.must("systemctl stop kubelet")
	n.write("/var/lib/node_exporter/textfile_collector/test.prom", failingMetrics)
	for _, alert := range []string{"KubeletDown", "SealiftServiceStopped", "SealiftCertificateEnded", "SealiftSnapshotOld"} {
		n.within(600, `grep '"alertname":"`+alert+`"' /root/alerts`)
	}
	if leaked := n.must("grep -rl 8099 /var/log/sealift* /var/lib/sealift/*.log 2>/dev/null || :"); leaked != "" {
		n.t.Errorf("the URL of the receiver is in %s", leaked)
	}
	n.must("rm /var/lib/node_exporter/textfile_collector/test.prom")
	worker.must("systemctl start kubelet")
	n.must(kubectl + "wait node/" + worker.Name() + " --for condition=Ready --timeout 180s")
}
