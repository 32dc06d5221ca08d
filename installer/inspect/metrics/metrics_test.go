package metrics

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/inspect/status"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/snapshot"
)

var now = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// whole is the status of a control plane that has everything to report.
func whole() status.Status {
	end, begin := now.AddDate(1, 0, 0), now.Add(time.Hour)
	return status.Status{
		State: "installed", Steps: 22, Finished: 22, LastStep: now.Add(-time.Hour), Failure: &status.Failure{Error: "hunter2"},
		AddOns:  []status.AddOn{{Name: "flannel", Version: "1.0", State: "installed", Health: "ready"}, {Name: "odd\"\n", Version: "\xff", State: "failed", Health: "not ready", Why: "hunter2"}},
		Stopped: []string{"kubelet.service"}, Settings: []status.Setting{{Name: "net.ipv4.ip_forward", Is: "0"}, {Name: "later", File: "/etc/sysctl.conf:3"}},
		AllCertificates: []pki.Entry{{File: "/etc/kubernetes/pki/apiserver.crt", Kind: pki.Leaf, End: &end, RenewedBy: pki.Sealift}, {File: "/etc/kubernetes/pki/ca.crt", Kind: pki.CA, End: &end},
			{File: "/etc/kubernetes/pki/sa.pub", Kind: pki.KeyPair}, {File: "/bad.crt", Kind: pki.Leaf, Problem: "hunter2"}, {File: "/early.crt", Kind: pki.Leaf, End: &end, Begin: &begin}},
		NextRenewal: now.AddDate(0, 8, 0),
		Snapshots:   &status.Snapshots{Every: 86400, Last: &snapshot.Last{Store: "s3://hunter2", Kept: snapshot.Kept{Name: snapshot.Name{Time: now.Add(-2 * time.Hour)}}}},
		Drill:       &restore.LastDrill{Time: now.AddDate(0, -1, 0), Passed: true},
		Space:       []status.Space{{Path: "/var/lib/containerd", Free: 5 << 30, Needed: 3 << 30}},
		UnderWay:    []status.UnderWay{{Kind: "upgrade", About: "hunter2", Began: now.Add(-time.Minute), Failed: true}, {Kind: "cas", Waits: true}},
		API:         &cluster.API{Ready: true}, Sees: "cluster", Cluster: "answers", Nodes: []cluster.Node{{Name: "a", Ready: true}, {Name: "b"}},
	}
}

// parse reads the text format with the parser that node_exporter uses.
func parse(t *testing.T, p Pass) map[string]*dto.MetricFamily {
	t.Helper()
	text, err := p.Text()
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if strings.Contains(string(text), "hunter2") {
		t.Errorf("a text of an error or an address is among the metrics:\n%s", text)
	}
	return families
}

// values are the samples of a metric: their labels, and their value.
func values(f *dto.MetricFamily) map[string]float64 {
	all := map[string]float64{}
	for _, m := range f.GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, l.GetName()+"="+l.GetValue())
		}
		all[strings.Join(labels, ",")] = m.GetGauge().GetValue()
	}
	return all
}

func TestStatusBecomesMetrics(t *testing.T) {
	t.Parallel()
	families := parse(t, Pass{Status: whole(), Time: now, Version: "1.2.3"})
	at := func(at time.Time) float64 { return float64(at.Unix()) }
	year := at(now.AddDate(1, 0, 0))
	for name, want := range map[string]map[string]float64{
		"sealift_last_pass_timestamp_seconds": {"": at(now)},
		"sealift_status_failed":               {"": 0},
		"sealift_info":                        {"version=1.2.3": 1},
		"sealift_healthy":                     {"": 0},
		"sealift_state":                       {"state=installed": 1, "state=none": 0, "state=running": 0, "state=interrupted": 0, "state=failed": 0, "state=resetting": 0},
		"sealift_steps":                       {"": 22},
		"sealift_addon_info":                  {"addon=flannel,state=installed,version=1.0": 1, "addon=odd\"\n,state=failed,version=?": 1},
		"sealift_addon_ready":                 {"addon=flannel": 1, "addon=odd\"\n": 0},
		"sealift_service_stopped":             {"unit=kubelet.service": 1},
		"sealift_kernel_setting_wrong":        {"name=net.ipv4.ip_forward": 1},
		"sealift_certificate_end_timestamp_seconds": {"file=/etc/kubernetes/pki/apiserver.crt,kind=certificate,renewed_by=sealift": year,
			"file=/etc/kubernetes/pki/ca.crt,kind=ca,renewed_by=nobody": year, "file=/early.crt,kind=certificate,renewed_by=nobody": year},
		"sealift_certificate_damaged":               {"file=/bad.crt": 1, "file=/early.crt": 1},
		"sealift_snapshot_interval_seconds":         {"": 86400},
		"sealift_snapshot_timestamp_seconds":        {"": at(now.Add(-2 * time.Hour))},
		"sealift_drill_passed":                      {"": 1},
		"sealift_disk_free_bytes":                   {"path=/var/lib/containerd": 5 << 30},
		"sealift_disk_needed_bytes":                 {"path=/var/lib/containerd": 3 << 30},
		"sealift_operation_begin_timestamp_seconds": {"operation=upgrade": at(now.Add(-time.Minute))},
		"sealift_operation_waiting":                 {"operation=upgrade": 0, "operation=cas": 1},
		"sealift_operation_failed":                  {"operation=upgrade": 1, "operation=cas": 0},
		"sealift_nodes":                             {"": 2},
		"sealift_nodes_ready":                       {"": 1},
	} {
		if diff := cmp.Diff(want, values(families[name])); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	for _, m := range table() {
		if families[m.name] == nil {
			t.Errorf("%s has no sample, and the status has everything", m.name)
		}
	}
}

func TestUnknownIsLeftOut(t *testing.T) {
	t.Parallel()
	failed := parse(t, Pass{Status: whole(), Failed: true, Time: now})
	if len(failed) != 3 || values(failed["sealift_status_failed"])[""] != 1 {
		t.Errorf("a status that could not be read becomes %v", failed)
	}
	worker := parse(t, Pass{Status: status.Status{State: "installed", Sees: "node", Cluster: "answers", Nodes: []cluster.Node{{Name: "a", Ready: true}}}, Time: now})
	for _, name := range []string{"sealift_nodes", "sealift_snapshot_timestamp_seconds", "sealift_drill_timestamp_seconds", "sealift_disk_free_bytes", "sealift_api_ready"} {
		if worker[name] != nil {
			t.Errorf("a worker reports %s: %v", name, worker[name])
		}
	}
	never := parse(t, Pass{Status: status.Status{Snapshots: &status.Snapshots{Every: 60}}, Time: now})
	if got := values(never["sealift_snapshot_timestamp_seconds"]); len(got) != 1 || got[""] != 0 {
		t.Errorf("a promised snapshot that never came: %v", got)
	}
}

func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	var s status.Status
	for n := range 2 * maxSeries {
		s.Stopped = append(s.Stopped, strconv.Itoa(n), strconv.Itoa(n))
	}
	if got := values(parse(t, Pass{Status: s, Time: now})["sealift_service_stopped"]); len(got) != maxSeries {
		t.Errorf("%d samples", len(got))
	}
}

var metricName = regexp.MustCompile(`\bsealift_[a-z_]+\b`)

// TestAlertsUseKnownMetrics: promtool, in 'make grid', also parses and fires them.
func TestAlertsUseKnownMetrics(t *testing.T) {
	t.Parallel()
	labels := map[string][]string{}
	for _, m := range table() {
		labels[m.name] = append([]string{"instance"}, m.labels...)
	}
	seen := map[string]bool{}
	for _, a := range Alerts() {
		if seen[a.Name] || !strings.HasPrefix(a.Name, "Sealift") || a.Summary == "" || a.Command == "" || a.Severity == "" {
			t.Errorf("%s is there twice, or has no name of ours, summary, command or severity", a.Name)
		}
		seen[a.Name] = true
		names := metricName.FindAllString(a.Expr, -1)
		if len(names) == 0 {
			t.Errorf("%s reads no metric", a.Name)
		}
		for _, name := range names {
			if labels[name] == nil {
				t.Errorf("%s reads %s, which nothing writes", a.Name, name)
			}
		}
		for _, used := range regexp.MustCompile(`\$labels\.([a-z_]+)`).FindAllStringSubmatch(a.Summary+a.Command, -1) {
			if len(names) == 0 || !slices.Contains(labels[names[0]], used[1]) {
				t.Errorf("%s names the label %s, which %v does not have", a.Name, used[1], names)
			}
		}
	}
}

func TestRulesFileAndPrometheusRuleAreTheSame(t *testing.T) {
	t.Parallel()
	var file, object struct {
		rules
		Kind string
		Spec rules
	}
	for into, write := range map[any]func() ([]byte, error){&file: RulesFile, &object: PrometheusRule} {
		text, err := write()
		if err == nil {
			err = yaml.UnmarshalStrict(text, into, yaml.DisallowUnknownFields)
		}
		if err != nil && !strings.Contains(err.Error(), `unknown field "apiVersion"`) && !strings.Contains(err.Error(), `unknown field "metadata"`) {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(file.rules, object.Spec); diff != "" || object.Kind != "PrometheusRule" || len(file.Groups[0].Rules) != len(Alerts()) {
		t.Errorf("%s %d rules %s", object.Kind, len(file.Groups[0].Rules), diff)
	}
}

// TestPageListsMetricsAndAlerts compares docs/monitoring.md with the tables.
func TestPageListsMetricsAndAlerts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, m := range table() {
		row := m.name
		if len(m.labels) > 0 {
			row += "{" + strings.Join(m.labels, ",") + "}"
		}
		want = append(want, "| `"+row+"` | "+m.help+" |")
	}
	for _, a := range Alerts() {
		want = append(want, "| `"+a.Name+"` | "+string(a.Severity)+" | `"+strings.ReplaceAll(a.Expr, "|", `\|`)+"` | "+duration(a.For)+" |")
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "| `sealift_") || strings.HasPrefix(line, "| `Sealift") {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/monitoring.md (-tables +page)\n%s", diff)
	}
}
