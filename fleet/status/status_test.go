package status_test

import (
	"encoding/json"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/status"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

// mca is a ManagedClusterAddOn, as far as the rows use it. Its times are not times.
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

func TestProgressingRows(t *testing.T) {
	type row struct {
		ManagedClusteraddon []mca
		Work                []ocm.ManifestWork
	}
	for _, file := range []string{"TestReconcile.json", "TestReconcileHostedAddons.json"} {
		for _, r := range upstreamcases.Rows[row](t, "fleet/ocm/ocm_addon_controllers_addonprogressing__controller__"+file) {
			t.Run(r.Name, func(t *testing.T) {
				if len(r.Case.ManagedClusteraddon) == 0 {
					return // nothing to check
				}
				m := r.Case.ManagedClusteraddon[0]
				want, patched := m.Status, false
				for _, o := range r.Observed {
					var sent []struct{ Patch struct{ Status state } }
					if err := json.Unmarshal(o.Value, &sent); err != nil {
						t.Fatal(err)
					}
					for _, s := range sent {
						patched = true
						if s.Patch.Status.Conditions != nil {
							want.Conditions = s.Patch.Status.Conditions
						}
						if s.Patch.Status.ConfigReferences != nil {
							want.ConfigReferences = s.Patch.Status.ConfigReferences
						}
					}
				}
				at := slices.IndexFunc(want.Conditions, func(c status.Condition) bool { return c.Type == "Progressing" })
				if at < 0 && !patched {
					return // an add-on without a manager
				}
				if at < 0 {
					t.Fatal("a row of another form")
				}
				got, references := read(m, r.Case.Work).Progressing()
				upstreamcases.Same(t, "condition", got, want.Conditions[at])
				upstreamcases.Same(t, "references", references, want.ConfigReferences)
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
	for _, r := range upstreamcases.Rows[row](t, "fleet/ocm/addon_framework_addonmanager_controllers_agentdeploy__healthcheck_sync__TestHealthCheckReconcile.json") {
		// without a condition or a prober of workloads, the controller judges
		want := r.Case.ExpectAvailableCondition
		if r.Case.ExpectedHealthCheckMode == "Customized" && want.Type != "" && want.Reason != "WorkApplied" {
			t.Run(r.Name, func(t *testing.T) {
				for i := range r.Case.ExistingWork { // the agent has them, though the rows leave them out
					r.Case.ExistingWork[i].Spec.Workload.Manifests = workloads
				}
				upstreamcases.Same(t, "condition", read(r.Case.Addon, r.Case.ExistingWork).Available(), want)
			})
		}
	}
}

// workloads are the manifests of an agent.
var workloads = []map[string]any{
	{"kind": "Deployment", "spec": map[string]any{"replicas": 1}}, {"kind": "Deployment", "spec": map[string]any{"replicas": 0}}, {"kind": "DaemonSet"},
}

func TestProbeRows(t *testing.T) {
	type row struct {
		ExpectedErr string
		Result      ocm.StatusFeedback
	}
	for _, r := range upstreamcases.Rows[row](t, "fleet/ocm/addon_framework_utils__probe_helper__TestDeploymentProbe.json") {
		want := status.Condition{Type: "Available", Status: "False", Reason: "ProbeUnavailable", Message: "Probe addon unavailable with err " + r.Case.ExpectedErr}
		switch {
		case r.Case.ExpectedErr == "":
			want = status.Condition{Type: "Available", Status: "True", Reason: "ProbeAvailable", Message: "hello add-on is available."}
		case len(r.Case.Result.Values) == 0: // upstream's controller does not ask the probe then
			want = status.Condition{Type: "Available", Status: "Unknown", Reason: "NoProbeResult", Message: "Probe results are not returned"}
		}
		a := healthy(ocm.ManifestStatus{ResourceMeta: ocm.ResourceMeta{Resource: "deployments", Namespace: "testns", Name: "test"}, StatusFeedback: r.Case.Result})
		a.Works[0].Spec.Workload.Manifests = workloads
		upstreamcases.Same(t, r.Name, a.Available(), want)
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
	hook := healthy()
	hook.Works = append(hook.Works, ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "addon-hello-pre-delete"}})
	unapplied := healthy()
	unapplied.Works[0].Status.Conditions = nil
	for _, tt := range []struct {
		addon          status.AddOn
		status, reason string
	}{
		{status.AddOn{}, "Unknown", "WorkNotFound"},
		{unapplied, "Unknown", "WorkNotApplied"},
		{hook, "True", "ProbeAvailable"},
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
