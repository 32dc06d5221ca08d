package install

import (
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/oidc"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/testing/issuer"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

func loginInstaller(t *testing.T, option string) *spec.Installer {
	t.Helper()
	s, err := spec.Parse("i", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  kubernetes:\n    version: 1.36.3\n"+option))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const loginOption = "    oidc:\n      issuers: [{url: https://login.example.org, audiences: [kubernetes]}]\n      viewers: [\"oidc:staff\"]\n"

// steps plans the step of the login.
func loginSteps(j *job) []step {
	p := &planner{job: j}
	p.login()
	return p.steps
}

func TestLoginFollowsInstaller(t *testing.T) {
	without := &job{contents: contents{spec: loginInstaller(t, "")}, hostFacts: hostFacts{past: &lifecycle.Journal{}}}
	if steps := loginSteps(without); len(steps) != 0 {
		t.Errorf("without a login: %+v", steps)
	}
	with := &job{contents: contents{spec: loginInstaller(t, loginOption)}, hostFacts: hostFacts{past: &lifecycle.Journal{}}}
	first := loginSteps(with)
	if len(first) != 1 || first[0].ID != loginStep {
		t.Fatalf("planned %+v", first)
	}
	changed := &job{contents: contents{spec: loginInstaller(t, strings.Replace(loginOption, "staff", "everybody", 1))}, hostFacts: hostFacts{past: &lifecycle.Journal{}}}
	if again := loginSteps(changed); again[0].Inputs == first[0].Inputs {
		t.Error("another group changes nothing")
	}
	lost := strings.Replace(loginOption, "audiences: [kubernetes]", "audiences: [kubernetes], caFile: /nonexistent/ca.pem", 1)
	if err := (&job{contents: contents{spec: loginInstaller(t, lost)}}).checkLogin(); err == nil || !strings.Contains(err.Error(), "kubernetes.oidc.issuers[0].caFile") {
		t.Errorf("a CA that is not there: %v", err)
	}
}

// TestIssuersAreCheckedOnJoin: a control plane that joins asks the issuers of the cluster, and a warning refuses nothing.
func TestIssuersAreCheckedOnJoin(t *testing.T) {
	good, away := issuer.Start(t), issuer.Start(t)
	away.Stop()
	text, err := oidc.Encode(&spec.OIDC{Issuers: []spec.Issuer{
		{URL: good.URL(), Audiences: []string{"k"}, CACertificate: good.CA()}, {URL: away.URL(), Audiences: []string{"k"}}, {URL: good.URL() + "/none", Audiences: []string{"k"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	join := &Join{ControlPlane: true, Cluster: share.Cluster{Authentication: string(text)}}
	j := &job{contents: contents{spec: loginInstaller(t, ""), addOns: []addOn{{info: bundle.PackageInfo{Name: kubernetesCapability}}}}, options: Options{Join: join}}
	report, err := preflight.Run(t.Context(), j.loginChecks())
	if err != nil {
		t.Fatal(err)
	}
	var found []preflight.Status
	for _, r := range report.Results {
		found = append(found, r.Status)
	}
	if !slices.Equal(found, []preflight.Status{preflight.Pass, preflight.Warn, preflight.Warn}) || !strings.Contains(report.Results[2].Hint, "caCertificate") {
		t.Errorf("reported %+v", report.Results)
	}
	join.ControlPlane = false
	if checks := j.loginChecks(); checks != nil {
		t.Errorf("a worker asks %+v", checks)
	}
}
