package registration_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/sealift/sealift/fleet/conversion"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/registration"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

const (
	templates = "fleet/ocm/ocm_addon_templateagent__registration__"
	utils     = "fleet/ocm/addon_framework_utils__"
)

// stored reads an add-on of a row as the hub stores it.
func stored(t *testing.T, o map[string]any) *ocm.ManagedClusterAddOn {
	t.Helper()
	delete(o, "$type")
	o["apiVersion"], o["kind"] = "addon.open-cluster-management.io/v1beta1", "ManagedClusterAddOn"
	converted, err := conversion.Convert(o, "v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(converted)
	var a ocm.ManagedClusterAddOn
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &a
}

func text(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSubjectRows(t *testing.T) {
	type row struct {
		Addon            map[string]any
		ExpectedSubjects []rbacv1.Subject
		// two other tables
		ExpectedCount                   *int
		ShouldContain, ShouldNotContain string
		ExpectError                     *bool
		ExpectedSubLen                  int
	}
	for _, file := range []string{templates + "TestBuildSubjectsFromRegistration", utils + "permission__TestBuildSubjectsFromRegistration_FilterSystemAuthenticated", utils + "permission__TestBindKubeClientRole_PendingError"} {
		for _, r := range upstreamcases.Rows[row](t, file+".json") {
			got := registration.Subjects(stored(t, r.Case.Addon).Status.Registrations)
			named := func(name string) bool {
				return slices.ContainsFunc(got, func(s rbacv1.Subject) bool { return s.Name == name })
			}
			switch {
			case r.Case.ExpectedCount != nil:
				if len(got) != *r.Case.ExpectedCount || r.Case.ShouldContain != "" && !named(r.Case.ShouldContain) || r.Case.ShouldNotContain != "" && named(r.Case.ShouldNotContain) {
					t.Errorf("%s: %v", r.Name, got)
				}
			case r.Case.ExpectError != nil:
				if (len(got) == 0) != *r.Case.ExpectError || len(got) != r.Case.ExpectedSubLen {
					t.Errorf("%s: %v", r.Name, got)
				}
			case text(t, append([]rbacv1.Subject{}, got...)) != text(t, append([]rbacv1.Subject{}, r.Case.ExpectedSubjects...)):
				t.Errorf("%s\ngot  %s\nwant %s", r.Name, text(t, got), text(t, r.Case.ExpectedSubjects))
			}
		}
	}
}

// certificate is a CertificateSigningRequest of a row.
type certificate struct {
	Spec struct {
		Request struct {
			Bytes string `json:"$bytes"`
		}
		SignerName, Username string
		Usages               []string
	}
}

func (c certificate) read() registration.Request {
	return registration.Request{Signer: c.Spec.SignerName, Username: c.Spec.Username, Usages: c.Spec.Usages, PEM: []byte(c.Spec.Request.Bytes)}
}

func TestRequestRows(t *testing.T) {
	type row struct {
		Addon    map[string]any
		Approved bool
		Csr      certificate
	}
	for _, r := range upstreamcases.Rows[row](t, utils+"csr_helper__TestDefaultCSRApprover.json") {
		a := stored(t, r.Case.Addon)
		want := registration.Identities(a.Namespace, a.Name, []ocm.Registration{{Type: ocm.KubeClient}})[0]
		// the agent of the rows has another name, and their requests name no signer
		want.Subject.User, want.SignerName = strings.TrimSuffix(want.Subject.User, a.Name+"-agent")+"test", r.Case.Csr.Spec.SignerName
		if err := r.Case.Csr.read().Verify(a.Namespace, want); (err == nil) != r.Case.Approved {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
	type template struct {
		Addon           map[string]any
		Csr             certificate
		ExpectedApprove bool
		Template        struct{ Spec ocm.AddOnTemplateSpec }
	}
	for _, r := range upstreamcases.Rows[template](t, templates+"TestTemplateCSRApproveCheckFunc.json") {
		a := stored(t, r.Case.Addon)
		approved := false
		for _, i := range registration.Identities(a.Namespace, a.Name, r.Case.Template.Spec.Registration) {
			approved = approved || r.Case.Csr.read().Verify(a.Namespace, i) == nil
		}
		// upstream approves every request to a custom signer
		if approved != r.Case.ExpectedApprove && r.Case.Csr.Spec.SignerName == registration.KubeSigner {
			t.Errorf("%s: %v", r.Name, approved)
		}
	}
}

func TestIdentityRows(t *testing.T) {
	type config struct {
		SignerName, User          string
		Groups, OrganizationUnits []string
	}
	type row struct {
		Addon           map[string]any
		ExpectedConfigs []config
		ExpectedErr     string
		Template        *struct{ Spec ocm.AddOnTemplateSpec }
	}
	for _, r := range upstreamcases.Rows[row](t, templates+"TestTemplateCSRConfigurationsFunc.json") {
		if r.Case.Template == nil || r.Case.ExpectedErr != "" {
			continue // the hub has no identities for an add-on without a template
		}
		a := stored(t, r.Case.Addon)
		var got []config
		for _, i := range registration.Identities(a.Namespace, a.Name, r.Case.Template.Spec.Registration) {
			c := config{i.SignerName, i.Subject.User, i.Subject.Groups, i.Subject.OrganizationUnit}
			if len(got) < len(r.Case.ExpectedConfigs) && r.Case.ExpectedConfigs[len(got)].SignerName == "" {
				c.SignerName = "" // upstream omits that of the API server
			}
			if len(c.OrganizationUnits) == 0 {
				c.OrganizationUnits = nil
			}
			got = append(got, c)
		}
		if text(t, got) != text(t, r.Case.ExpectedConfigs) {
			t.Errorf("%s\ngot  %s\nwant %s", r.Name, text(t, got), text(t, r.Case.ExpectedConfigs))
		}
	}
}

func TestPermissionRows(t *testing.T) {
	type row struct {
		Addon    map[string]any
		Template struct{ Spec ocm.AddOnTemplateSpec }
	}
	for _, r := range upstreamcases.Rows[row](t, templates+"TestTemplatePermissionConfigFunc.json") {
		t.Run(r.Name, func(t *testing.T) {
			a := stored(t, r.Case.Addon)
			bindings, err := registration.Bindings(a, r.Case.Template.Spec.Registration, a.Status.Registrations)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range r.Observed {
				var sent []struct {
					Verb, Namespace string
					Object          rbacv1.RoleBinding
				}
				if err := json.Unmarshal(o.Value, &sent); err != nil {
					t.Fatal(err)
				}
				for _, s := range sent {
					if s.Verb != "create" && s.Verb != "update" {
						continue
					}
					for i := range s.Object.OwnerReferences {
						s.Object.OwnerReferences[i].APIVersion = ocm.AddOnVersion.String() // the version that we store
					}
					// upstream also binds the group of the add-on's agents on all clusters, which lets them read this one's namespace
					s.Object.Subjects = slices.DeleteFunc(s.Object.Subjects, func(s rbacv1.Subject) bool { return s.Name == "system:open-cluster-management:addon:"+a.Name })
					if !slices.ContainsFunc(bindings, func(b rbacv1.RoleBinding) bool { return text(t, b) == text(t, s.Object) }) {
						t.Errorf("got %s\nwant %s", text(t, bindings), text(t, s.Object))
					}
				}
			}
		})
	}
}
