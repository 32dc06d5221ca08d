package upgrade

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/operation/intent"
	controlplanes "github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/preflight"
)

// opened is a cluster of two nodes on a real API server.
func opened(t *testing.T) (*Cluster, kubernetes.Interface) {
	t.Helper()
	config := controlplanes.ForTest(t)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	view, err := cluster.ViewOf(config, false)
	if err != nil {
		t.Fatal(err)
	}
	return &Cluster{admin: controlplane.Administrator{Client: client, Address: "10.0.0.1"}, view: view, own: "host-1",
		nodes: []cluster.Node{{Name: "host-1", Roles: []string{"control-plane"}, Ready: true, Version: "v1.35.4"}, {Name: "host-2", Ready: true, Version: "v1.35.4"}}}, client
}

// results makes one check.
func results(t *testing.T, probe preflight.Check) []preflight.Result {
	t.Helper()
	report, err := preflight.Run(t.Context(), []preflight.Check{probe})
	if err != nil {
		t.Fatal(err)
	}
	return report.Results
}

func wantResult(t *testing.T, got []preflight.Result, status preflight.Status, text string) {
	t.Helper()
	if len(got) != 1 || got[0].Status != status || !strings.Contains(got[0].Message, text) {
		t.Errorf("want %s with %q: %+v", status, text, got)
	}
}

// TestUnavailableNodeIsNamed has one fault each: no agent, a full disk for images or for files, no inodes, a wrong clock.
func TestUnavailableNodeIsNamed(t *testing.T) {
	brought := install.Brought{Files: 100 << 20, Images: 200 << 20, Count: 50}
	now := time.Now()
	roomy := intent.Host{Time: now, Free: intent.Space{Bytes: 100 << 20, Inodes: 50}, Images: intent.Space{Bytes: 300 << 20}}
	for name, c := range map[string]struct {
		change func(*intent.Host)
		want   string
	}{
		"all is well":        {func(*intent.Host) {}, ""},
		"no agent":           {func(h *intent.Host) { h.Time = time.Time{} }, "no agent there"},
		"no room for images": {func(h *intent.Host) { h.Images.Bytes-- }, "300.0 MiB are left for images and files, the bundle brings up to 300.0 MiB"},
		"no room for files":  {func(h *intent.Host) { h.Free.Bytes-- }, "100.0 MiB are left below the install root, the bundle brings files of up to 100.0 MiB"},
		"no inodes":          {func(h *intent.Host) { h.Free.Inodes-- }, "49 inodes are left, the bundle brings 50 files"},
		"no inodes to count": {func(h *intent.Host) { h.Free.Inodes = 0 }, ""},
		"a clock behind":     {func(h *intent.Host) { h.Time = h.Time.Add(-time.Hour) }, "its clock is 1h0m0s from that of this one"},
		"a clock ahead":      {func(h *intent.Host) { h.Time = h.Time.Add(time.Hour) }, "its clock is "},
	} {
		t.Run(name, func(t *testing.T) {
			h := roomy
			c.change(&h)
			if got, _ := unfit(dated{h, now, now}, brought); got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	for shift, want := range map[time.Duration]string{-time.Minute: "", time.Hour: "its clock is "} {
		h := roomy
		h.Time = h.Time.Add(shift)
		if got, _ := unfit(dated{Host: h, answered: now}, brought); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("a report that is %s off, and is not of now: %q", shift, got)
		}
	}
}

// TestSlowAnswersAreNoWrongClock has 40 nodes that take 30 seconds each. Each reads its clock in the middle of that.
// Two clocks are certainly wrong by more than 30 seconds.
func TestSlowAnswersAreNoWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := map[string]time.Duration{"host-3": 46 * time.Second, "host-5": -46 * time.Second, "host-7": 44 * time.Second, "host-9": -44 * time.Second}
		var names []string
		for n := range 40 {
			names = append(names, "host-"+strconv.Itoa(n))
		}
		var lock sync.Mutex
		atOnce, most := 0, 0
		count := func(n int) {
			lock.Lock()
			defer lock.Unlock()
			atOnce += n
			most = max(most, atOnce)
		}
		found, err := lookAtAll(t.Context(), names, func(_ context.Context, name string) (intent.Host, error) {
			count(1)
			defer count(-1)
			time.Sleep(15 * time.Second)
			h := intent.Host{Time: time.Now().Add(wrong[name])}
			time.Sleep(15 * time.Second)
			return h, nil
		})
		if err != nil || len(found) != len(names) {
			t.Fatalf("%d answers, %v", len(found), err)
		}
		for name, h := range found {
			problem, _ := unfit(h, install.Brought{})
			if refused := wrong[name].Abs() > 45*time.Second; refused != (problem == "its clock is 31s from that of this one") || !refused && problem != "" {
				t.Errorf("%s, whose clock is %s off: %q", name, wrong[name], problem)
			}
		}
		if most != maxLooks {
			t.Errorf("%d nodes were asked at a time, not %d", most, maxLooks)
		}
	})
}

func TestUnavailableAgentIsNamed(t *testing.T) {
	t.Parallel()
	_, err := lookAtAll(t.Context(), []string{"host-1", "host-2"}, func(_ context.Context, name string) (intent.Host, error) {
		if name == "host-2" {
			return intent.Host{}, errors.New("no answer")
		}
		return intent.Host{}, nil
	})
	if err == nil || err.Error() != "node host-2: no answer" {
		t.Error(err)
	}
}

func TestBlockingDisruptionBudgetIsNamed(t *testing.T) {
	c, client := opened(t)
	check := preflight.Check{Name: "disruption budgets", Probe: c.budgets}
	wantResult(t, results(t, check), preflight.Pass, "0; all let pods leave")
	budgets := client.PolicyV1().PodDisruptionBudgets("default")
	for name, status := range map[string]policyv1.PodDisruptionBudgetStatus{
		"never":    {ExpectedPods: 3, CurrentHealthy: 3, DesiredHealthy: 3},
		"ill-now":  {ExpectedPods: 3, CurrentHealthy: 2, DesiredHealthy: 2},
		"one":      {ExpectedPods: 3, CurrentHealthy: 3, DesiredHealthy: 2, DisruptionsAllowed: 1},
		"no-pods":  {},
		"no-quota": {ExpectedPods: 2, CurrentHealthy: 1, DesiredHealthy: 1},
	} {
		all := intstr.FromInt32(3)
		made, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made.Status = status
		if _, err := budgets.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	wantResult(t, results(t, check), preflight.Fail, "ever: default/never")
	c.nodes = c.nodes[:1]
	wantResult(t, results(t, check), preflight.Pass, "only node")
}

func TestUnreachableWebhookIsNamed(t *testing.T) {
	c, client := opened(t)
	hooks := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	for name, policy := range map[string]admissionv1.FailurePolicyType{"dead": admissionv1.Fail, "alive": admissionv1.Fail, "ignored": admissionv1.Ignore} {
		none := admissionv1.SideEffectClassNone
		_, err := hooks.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionv1.ValidatingWebhook{{
			Name: name + ".example.com", FailurePolicy: &policy, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "default", Name: name}},
			Rules:        []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{"CREATE"}, Rule: admissionv1.Rule{APIGroups: []string{"x.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"xs"}}}},
		}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	yes := true
	_, err := client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "alive-1", Labels: map[string]string{"kubernetes.io/service-name": "alive"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.9"}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := results(t, preflight.Check{Name: "webhooks", Probe: c.webhooks})
	wantResult(t, got, preflight.Fail, "asked about: dead (Service default/dead)")
}

func TestRemovedAPIsAreFoundInMetrics(t *testing.T) {
	const metrics = `# HELP apiserver_requested_deprecated_apis
apiserver_requested_deprecated_apis{group="batch",removed_release="1.36",resource="cronjobs",subresource="",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="",removed_release="1.99",resource="endpoints",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="",removed_release="",resource="componentstatuses",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="policy",removed_release="1.25",resource="podsecuritypolicies",subresource="",version="v1beta1"} 0
apiserver_request_total{group="batch",removed_release="1.36"} 1
`
	if got := removedAPIs(metrics, 36); !slices.Equal(got, []string{"cronjobs.v1beta1.batch"}) {
		t.Errorf("%v", got)
	}
	if got := removedAPIs(metrics, 35); len(got) > 0 {
		t.Errorf("for 1.35: %v", got)
	}
}
