package status_test

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/status"
	"github.com/sealift/sealift/testgrid/cases"
)

// mca is a ManagedClusterAddOn, as far as the rows use it. Its times are no times.
type mca struct {
	Metadata struct {
		Name, Namespace string
		Annotations     map[string]string
	}
	Spec   struct{ Configs []ocm.AddOnConfig }
	Status state
}

type state struct {
	Conditions       []status.Condition
	SupportedConfigs []ocm.ConfigType
	ConfigReferences []ocm.ConfigReference
}

func read(m mca, works []ocm.ManifestWork) status.AddOn {
	hosting := m.Metadata.Annotations["addon.open-cluster-management.io/hosting-cluster-name"]
	a := status.AddOn{
		Name: m.Metadata.Name, Configs: m.Spec.Configs, Supported: m.Status.SupportedConfigs, References: m.Status.ConfigReferences,
		Hosted: hosting != "", Works: status.Works(m.Metadata.Name, m.Metadata.Namespace, hosting, works),
	}
	for _, c := range m.Status.Conditions {
		a.Conditions = append(a.Conditions, metav1.Condition{Type: c.Type, Status: metav1.ConditionStatus(c.Status)})
	}
	return a
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	a, err1 := json.Marshal(got)
	b, err2 := json.Marshal(want)
	if err1 != nil || err2 != nil || string(a) != string(b) {
		t.Errorf("%s\ngot  %s\nwant %s", what, a, b)
	}
}

func TestProgressingRows(t *testing.T) {
	type row struct {
		ManagedClusteraddon []mca
		Work                []ocm.ManifestWork
	}
	for _, file := range []string{"TestReconcile.json", "TestReconcileHostedAddons.json"} {
		for _, r := range cases.Rows[row](t, "fleet/ocm/ocm_addon_controllers_addonprogressing__controller__"+file) {
			t.Run(r.Name, func(t *testing.T) {
				var sent []struct{ Patch struct{ Status state } }
				if err := json.Unmarshal(r.Observed[0].Value, &sent); err != nil {
					t.Fatal(err)
				}
				if len(sent) == 0 {
					return // an add-on that nobody looks after
				}
				m := r.Case.ManagedClusteraddon[0]
				got, references := read(m, r.Case.Work).Progressing()
				conditions := sent[0].Patch.Status.Conditions
				same(t, "condition", got, conditions[len(conditions)-1])
				want := sent[0].Patch.Status.ConfigReferences
				if want == nil {
					want = m.Status.ConfigReferences
				}
				same(t, "references", references, want)
			})
		}
	}
}

func TestHealthRows(t *testing.T) {
	type row struct {
		Addon                    mca
		ExistingWork             []ocm.ManifestWork
		ExpectAvailableCondition status.Condition
		ExpectedHealthCheckMode  string
	}
	for _, r := range cases.Rows[row](t, "fleet/ocm/addon_framework_addonmanager_controllers_agentdeploy__healthcheck_sync__TestHealthCheckReconcile.json") {
		// without a condition or a prober of workloads, the controller judges
		want := r.Case.ExpectAvailableCondition
		if r.Case.ExpectedHealthCheckMode == "Customized" && want.Type != "" && want.Reason != "WorkApplied" {
			t.Run(r.Name, func(t *testing.T) {
				same(t, "condition", read(r.Case.Addon, r.Case.ExistingWork).Available(), want)
			})
		}
	}
	type probe struct {
		ExpectedErr string
		Result      ocm.StatusFeedback
	}
	for _, r := range cases.Rows[probe](t, "fleet/ocm/addon_framework_utils__probe_helper__TestDeploymentProbe.json") {
		want := "Probe addon unavailable with err " + r.Case.ExpectedErr
		if r.Case.ExpectedErr == "" {
			want = "hello add-on is available."
		}
		at := ocm.ResourceMeta{Resource: "deployments", Namespace: "testns", Name: "test"}
		if got := healthy(ocm.ManifestStatus{ResourceMeta: at, StatusFeedback: r.Case.Result}).Available(); got.Message != want {
			t.Errorf("%s: got %+v, want %s", r.Name, got, want)
		}
	}
}

// healthy is an add-on with a work that is available and reports one object.
func healthy(manifests ...ocm.ManifestStatus) status.AddOn {
	var w ocm.ManifestWork
	w.Name = "addon-hello-deploy-0"
	w.Status.Conditions = []metav1.Condition{{Type: "Available", Status: "True"}, {Type: "Applied", Status: "True"}}
	w.Status.ResourceStatus.Manifests = manifests
	return status.AddOn{Name: "hello", Works: []ocm.ManifestWork{w}, Conditions: []metav1.Condition{{Type: "ManifestApplied", Status: "True"}}}
}

func TestAvailable(t *testing.T) {
	report := func(values map[string]int64) ocm.ManifestStatus {
		m := ocm.ManifestStatus{ResourceMeta: ocm.ResourceMeta{Resource: "daemonsets", Namespace: "n", Name: "d"}}
		for name, value := range values {
			m.StatusFeedback.Values = append(m.StatusFeedback.Values, ocm.FeedbackValue{Name: name, FieldValue: ocm.FieldValue{Integer: &value}})
		}
		return m
	}
	silent, scaled := healthy(), healthy()
	silent.Works[0].Spec.Workload.Manifests = []map[string]any{{"kind": "ConfigMap"}, {"kind": "Deployment"}}
	scaled.Works[0].Spec.Workload.Manifests = []map[string]any{{"kind": "Deployment", "spec": map[string]any{"replicas": 0}}}
	unapplied := healthy()
	unapplied.Works[0].Status.Conditions = nil
	for _, tt := range []struct {
		addon          status.AddOn
		status, reason string
	}{
		{status.AddOn{}, "Unknown", "WorkNotFound"},
		{unapplied, "Unknown", "WorkNotApplied"},
		{silent, "Unknown", "NoProbeResult"},
		{scaled, "True", "ProbeAvailable"},
		{healthy(), "True", "ProbeAvailable"},
		{healthy(report(map[string]int64{"DesiredNumberScheduled": 3, "NumberReady": 2})), "False", "ProbeUnavailable"},
		{healthy(report(map[string]int64{"DesiredNumberScheduled": 3, "NumberReady": 3})), "True", "ProbeAvailable"},
		{healthy(report(map[string]int64{"DesiredNumberScheduled": 3})), "False", "ProbeUnavailable"},
		{healthy(report(map[string]int64{"NumberReady": 3})), "False", "ProbeUnavailable"},
		{healthy(report(map[string]int64{"mine": 3})), "True", "ProbeAvailable"},
	} {
		if got := tt.addon.Available(); got.Status != tt.status || got.Reason != tt.reason {
			t.Errorf("got %+v, want %s %s", got, tt.status, tt.reason)
		}
	}
}

func TestProgressing(t *testing.T) {
	refs := []ocm.ConfigReference{{DesiredConfig: &ocm.ConfigHash{SpecHash: "h"}}}
	unknown, waiting, stale, empty, hook := healthy(), healthy(), healthy(), healthy(), healthy()
	unknown.References = refs
	waiting.Conditions = nil
	stale.Works[0].Generation = 2
	empty.References = []ocm.ConfigReference{{DesiredConfig: &ocm.ConfigHash{}}}
	empty.Works[0].Annotations = map[string]string{"open-cluster-management.io/config-spec-hash": `{"//":""}`}
	hook.Works[0].Name, hook.Works[0].Status.Conditions = "addon-hello-pre-delete", nil
	for _, tt := range []struct {
		addon   status.AddOn
		message string
	}{
		{healthy(), "completed with no errors."},
		{hook, "completed with no errors."},
		{unknown, "progressing... mca and work configs mismatch"},
		{empty, "progressing... mca and work configs mismatch"},
		{stale, "progressing... work is not ready"},
		{waiting, "Waiting for ManagedClusterAddOn ManifestApplied condition"},
	} {
		if got, _ := tt.addon.Progressing(); got.Message != tt.message {
			t.Errorf("got %+v, want %s", got, tt.message)
		}
	}
}
