//go:build grid

package metrics

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/inspect/status"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// promtool runs Prometheus' own tool in a folder.
func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	path, err := lab.Workshop(t).File(t.Context(), upstream.MonitoringProgram("promtool"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	t.Logf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	if err != nil {
		t.Fail()
	}
}

// series are the metrics of a pass as a scrape of node_exporter on host-1 gives them, the same for a day.
func series(t *testing.T, p Pass) (all []map[string]string) {
	t.Helper()
	for _, m := range table() {
		for _, one := range m.family(p).GetMetric() {
			labels := []string{`instance="host-1"`, `job="node"`}
			for _, l := range one.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			all = append(all, map[string]string{"series": m.name + "{" + strings.Join(labels, ",") + "}", "values": fmt.Sprintf("%fx1440", one.GetGauge().GetValue())})
		}
	}
	return all
}

// scenario is a node that is seen for a day, and the alerts that fire at its end, with the label that says what they are about. An alert
// that no scenario names must not fire.
type scenario struct {
	change func(s *status.Status)
	failed bool
	want   map[string]string
}

// scenarios begin at now, with a node on which everything is right.
func scenarios() map[string]scenario {
	ends := func(days int, kind pki.Kind) func(*status.Status) {
		return func(s *status.Status) {
			end := now.Add(time.Duration(days)*24*time.Hour + 12*time.Hour)
			s.AllCertificates = []pki.Entry{{File: "/etc/kubernetes/pki/x.crt", Kind: kind, End: &end}}
		}
	}
	const never = -1
	saved := func(hours int) func(*status.Status) {
		return func(s *status.Status) {
			s.Snapshots = &status.Snapshots{Every: (24 * time.Hour).Seconds()}
			if hours != never {
				s.Snapshots.Last = &snapshot.Last{Kept: snapshot.Kept{Name: snapshot.Name{Time: now.Add(-time.Duration(hours) * time.Hour)}}}
			}
		}
	}
	change := func(u status.UnderWay) func(*status.Status) {
		return func(s *status.Status) { u.Kind = "upgrade"; s.UnderWay = []status.UnderWay{u} }
	}
	return map[string]scenario{
		"a good node":                  {},
		"a certificate of 20 days":     {ends(20, pki.Leaf), false, map[string]string{"SealiftCertificateEnds": `file="/etc/kubernetes/pki/x.crt"`}},
		"a certificate of 31 days":     {change: ends(31, pki.Leaf)},
		"a certificate that has ended": {ends(0, pki.Leaf), false, map[string]string{"SealiftCertificateEnded": `file="/etc/kubernetes/pki/x.crt"`}},
		"a damaged certificate": {func(s *status.Status) { s.AllCertificates = []pki.Entry{{File: "/x", Problem: "no"}} }, false,
			map[string]string{"SealiftCertificateDamaged": `file="/x"`}},
		"a CA of 100 days":                {ends(100, pki.CA), false, map[string]string{"SealiftCAEnds": `file="/etc/kubernetes/pki/x.crt"`}},
		"a snapshot of this morning":      {change: saved(2)}, // 26 hours old at the end
		"a snapshot of the day before":    {saved(20), false, map[string]string{"SealiftSnapshotOld": ""}},
		"a snapshot of the future":        {saved(-24 * 400), false, map[string]string{"SealiftSnapshotOld": ""}},
		"a promise and no snapshot":       {saved(never), false, map[string]string{"SealiftSnapshotOld": ""}},
		"an old drill":                    {func(s *status.Status) { s.Drill = &restore.LastDrill{Time: now.AddDate(0, 0, -90), Passed: true} }, false, map[string]string{"SealiftDrillOld": ""}},
		"a failed drill":                  {func(s *status.Status) { s.Drill = &restore.LastDrill{Time: now} }, false, map[string]string{"SealiftDrillFailed": ""}},
		"a small disk":                    {func(s *status.Status) { s.Space = []status.Space{{Path: "/d", Free: 1 << 30, Needed: 2 << 30}} }, false, map[string]string{"SealiftDiskShort": `path="/d"`}},
		"an operation since yesterday":    {change(status.UnderWay{Began: now}), false, map[string]string{"SealiftOperationStuck": `operation="upgrade"`}},
		"an operation since an hour":      {change: change(status.UnderWay{Began: now.Add(23 * time.Hour)})},
		"one that waits for a person":     {change: change(status.UnderWay{Began: now, Waits: true})},
		"a failed operation":              {change(status.UnderWay{Began: now.Add(23 * time.Hour), Failed: true}), false, map[string]string{"SealiftOperationFailed": `operation="upgrade"`}},
		"a run without progress":          {func(s *status.Status) { s.State, s.LastStep = "running", now }, false, map[string]string{"SealiftRunStuck": ""}},
		"an interrupted run":              {func(s *status.Status) { s.State = "interrupted" }, false, map[string]string{"SealiftRunInterrupted": `state="interrupted"`}},
		"a stopped service":               {func(s *status.Status) { s.Stopped = []string{"kubelet.service"} }, false, map[string]string{"SealiftServiceStopped": `unit="kubelet.service"`}},
		"a wrong setting":                 {func(s *status.Status) { s.Settings = []status.Setting{{Name: "a.b"}} }, false, map[string]string{"SealiftKernelSettingWrong": `name="a.b"`}},
		"an API that does not answer":     {func(s *status.Status) { s.API = &cluster.API{} }, false, map[string]string{"SealiftAPINotReady": ""}},
		"a node that is not Ready":        {func(s *status.Status) { s.Nodes[1].Ready = false }, false, map[string]string{"SealiftNodeNotReady": ""}},
		"an add-on that is not ready":     {func(s *status.Status) { s.AddOns[0].Health = "not ready" }, false, map[string]string{"SealiftAddOnNotReady": `addon="flannel"`}},
		"a status that cannot be read":    {nil, true, map[string]string{"SealiftStatusFailed": ""}},
		"an agent that ended an hour ago": {nil, false, map[string]string{"SealiftMetricsOld": ""}},
	}
}

// good is the status of a node on which nothing is wrong.
func good() status.Status {
	end := now.AddDate(1, 0, 0)
	return status.Status{
		State: "installed", Sees: "cluster", Cluster: "answers", API: &cluster.API{Ready: true}, LastStep: now.Add(-time.Hour),
		AddOns: []status.AddOn{{Name: "flannel", Health: "ready"}}, Nodes: []cluster.Node{{Name: "host-1", Ready: true}, {Name: "host-2", Ready: true}},
		AllCertificates: []pki.Entry{{File: "/etc/kubernetes/pki/apiserver.crt", Kind: pki.Leaf, End: &end}}, Space: []status.Space{{Path: "/d", Free: 2, Needed: 1}},
		Snapshots: &status.Snapshots{Every: 86400, Last: &snapshot.Last{Kept: snapshot.Kept{Name: snapshot.Name{Time: now}}}}, Drill: &restore.LastDrill{Time: now, Passed: true},
	}
}

// TestAlertsFire has promtool, which is Prometheus itself, load the rules, and evaluate them over a day.
func TestAlertsFire(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, text []byte, err error) {
		t.Helper()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := RulesFile()
	put("rules.yaml", text, err)
	promtool(t, dir, "check", "rules", "--lint-fatal", "rules.yaml")
	var tests []map[string]any
	fired := map[string]bool{}
	for name, one := range scenarios() {
		p := Pass{Status: good(), Failed: one.failed, Time: now.Add(24 * time.Hour), Version: "1.2.3"}
		if _, old := one.want["SealiftMetricsOld"]; old {
			p.Time = now.Add(23 * time.Hour)
		}
		if one.change != nil {
			one.change(&p.Status)
		}
		firing := []map[string]any{}
		for alert, about := range one.want {
			fired[alert] = true
			firing = append(firing, map[string]any{"labels": fmt.Sprintf("{alertname=%q}", alert), "value": 1})
			tests = append(tests, test(t, name+": "+about, p, fmt.Sprintf(`count(ALERTS{alertstate="firing",instance="host-1",alertname=%q,%s})`, alert, about), map[string]any{"labels": "{}", "value": 1}))
		}
		tests = append(tests, test(t, name, p, `count by (alertname) (ALERTS{alertstate="firing"})`, firing...))
	}
	for _, a := range Alerts() {
		if !fired[a.Name] {
			t.Errorf("no scenario lets %s fire", a.Name)
		}
	}
	slices.SortFunc(tests, func(a, b map[string]any) int { return strings.Compare(fmt.Sprint(a["name"]), fmt.Sprint(b["name"])) })
	text, err = yaml.Marshal(map[string]any{"rule_files": []string{"rules.yaml"}, "evaluation_interval": "1m", "tests": tests})
	put("tests.yaml", text, err)
	promtool(t, dir, "test", "rules", "tests.yaml")
	t.Logf("%d scenarios, %d alerts", len(scenarios()), len(fired))
}

// test is a test of promtool: what an expression yields after a day.
func test(t *testing.T, name string, p Pass, expr string, samples ...map[string]any) map[string]any {
	return map[string]any{
		"name": name, "interval": "1m", "start_timestamp": now.Format(time.RFC3339), "input_series": series(t, p),
		"promql_expr_test": []map[string]any{{"expr": expr, "eval_time": "1d", "exp_samples": samples}},
	}
}
