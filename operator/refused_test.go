package operator_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator"
	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/hook"
	"github.com/sealift/sealift/operator/webhook"
)

// webhookConfig is the output of a hook with one webhook with a condition.
func webhookConfig(kind, name, expression string) string {
	return fmt.Sprintf(`{configVersion: v1, %s: [{name: %s, rules: [{apiGroups: ["x.y"], apiVersions: [v1], operations: [CREATE], resources: [zs]}], matchConditions: [{name: c, expression: %q}]}]}`,
		kind, name, expression)
}

func webhookHook(t *testing.T, name, config string) webhook.Hook {
	t.Helper()
	c, err := binding.Parse(name, []byte(config), binding.Shell)
	if err != nil {
		t.Fatal(err)
	}
	return webhook.Hook{Name: name, Config: c, Run: func(context.Context, binding.Context) ([]byte, error) { return nil, nil }}
}

const badExpression = "the API server refuses it: Invalid value: \"objekt.metadata.name == 'x'\": compilation failed"

// TestRefusedWebhookIsNamedAtStart: one expression that the API server refuses must not switch all webhooks off.
func TestRefusedWebhookIsNamedAtStart(t *testing.T) {
	cluster, err := kube.Connect(controlplane.ForTest(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the operator does not start", func(t *testing.T) {
		dir := t.TempDir()
		for name, config := range map[string]string{
			"bad.sh":  webhookConfig("kubernetesMutating", "bad.example.com", "objekt.metadata.name == 'x'"),
			"good.sh": webhookConfig("kubernetesValidating", "good.example.com", "object.metadata.name == 'x'"),
		} {
			if err := fixture.WriteProgram(filepath.Join(dir, name), "#!/bin/bash\ncat <<'EOC'\n"+config+"\nEOC\n"); err != nil {
				t.Fatal(err)
			}
		}
		err := operator.Run(t.Context(), operator.Options{
			Options: engine.Options{HooksDir: dir, Cluster: cluster, MetricsPrefix: "o_", Runner: hook.Runner{TempDir: t.TempDir()}}, Listen: "127.0.0.1:0",
			Webhooks: webhook.Options{Namespace: "default", ConfigurationName: "start", Admission: webhook.Endpoint{Listen: "127.0.0.1:0", Service: "start"}},
		})
		if err == nil || !strings.Contains(err.Error(), "hook bad.sh: kubernetesMutating[0].matchConditions[0].expression: "+badExpression) || strings.Contains(err.Error(), "good.sh") {
			t.Errorf("got %v", err)
		}
		s := &webhookSite{T: t, cluster: cluster}
		for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
			if live, err := s.get(kube.Ref{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind, Name: "start-hooks"}); !apierrors.IsNotFound(err) {
				t.Errorf("the dry run wrote %v, %v", live, err)
			}
		}
	})
	t.Run("the operator is not ready while its configuration is refused", func(t *testing.T) { testNotReady(t, cluster) })
	t.Run("the other webhooks are written", func(t *testing.T) { testGoodWebhooksAreWritten(t, cluster) })
}

// testGoodWebhooksAreWritten sets hooks of a module that is switched on later: the operator runs already, and is not ready.
func testGoodWebhooksAreWritten(t *testing.T, cluster *kube.Cluster) {
	var log fixture.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	server := webhook.New(ctx, webhook.Options{
		Cluster: cluster, Log: slog.New(slog.NewTextHandler(&log, nil)), Namespace: "default", ConfigurationName: "later",
		Admission: webhook.Endpoint{Listen: "127.0.0.1:0", Service: "later"}, Conversion: webhook.Endpoint{Listen: "127.0.0.1:0", Service: "converter"},
	})
	defer server.Wait()
	defer cancel()
	s := &webhookSite{T: t, cluster: cluster}
	written := func() string {
		live, err := s.get(kube.Ref{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration", Name: "later-hooks"})
		if err != nil {
			return err.Error()
		}
		webhooks, _, _ := unstructured.NestedSlice(live.Object, "webhooks")
		var names []string
		for _, one := range webhooks {
			names = append(names, one.(map[string]any)["name"].(string))
		}
		return strings.Join(names, " ")
	}
	const expression = "object.metadata.name == 'x'"
	first, second := webhookHook(t, "first.sh", webhookConfig("kubernetesValidating", "a.example.com", expression)), webhookHook(t, "second.sh", webhookConfig("kubernetesValidating", "z.example.com", expression))
	bad := webhookHook(t, "bad.sh", webhookConfig("kubernetesValidating", "b.example.com", "objekt.metadata.name == 'x'"))
	worse := webhookHook(t, "worse.sh", webhookConfig("kubernetesValidating", "c.example.com", "1 + 1"))
	old := webhookHook(t, "old.sh", `{configVersion: v1, kubernetesCustomResourceConversion: [{name: up, crdName: olds.example.org, conversions: [{fromVersion: v1, toVersion: v2}]}]}`)
	for _, row := range []struct {
		name, written string
		hooks         []webhook.Hook
		errs          []string
	}{
		{"two good ones", "a.example.com z.example.com", []webhook.Hook{first, second}, nil},
		{"one of three is bad", "a.example.com z.example.com", []webhook.Hook{first, bad, second}, []string{"hook bad.sh: kubernetesValidating[0].matchConditions[0].expression: " + badExpression}},
		{"two of three are bad", "z.example.com", []webhook.Hook{second, bad, worse}, []string{"hook bad.sh: ", "hook worse.sh: kubernetesValidating[0].matchConditions[0].expression: "}},
		{"a definition that is not there yet holds up nobody", "a.example.com", []webhook.Hook{first, old}, nil},
		{"two of one name", "a.example.com", []webhook.Hook{first, first}, []string{"hook first.sh also has a webhook a.example.com"}},
		{"all are bad", "", []webhook.Hook{bad}, []string{"hook bad.sh: "}},
		{"all are good again", "a.example.com", []webhook.Hook{first}, nil},
	} {
		_ = server.Set(row.hooks)
		state := ""
		reached := func() bool {
			err, got := server.Err(), written()
			state = fmt.Sprintf("%s; %v", got, err)
			if row.written == "" {
				got = strings.ReplaceAll(got, `validatingwebhookconfigurations.admissionregistration.k8s.io "later-hooks" not found`, "")
			}
			text := ""
			if err != nil {
				text = err.Error()
			}
			for _, want := range row.errs {
				if !strings.Contains(text, want) {
					return false
				}
			}
			return got == row.written && (err != nil) == (row.errs != nil)
		}
		for deadline := time.Now().Add(20 * time.Second); !reached(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %s\n%s", row.name, state, log.String())
			}
		}
	}
}

// policies refuse configurations of one name, as a site's policies may.
const policies = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-webhooks}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [admissionregistration.k8s.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [validatingwebhookconfigurations]}]}
  validations: [{expression: "!object.metadata.name.startsWith('policed')", message: the site has no webhooks}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-webhooks}
spec: {policyName: no-webhooks, validationActions: [Deny]}
`

// testNotReady: /readyz reports objects that the API server refuses as a whole, until they are accepted.
func testNotReady(t *testing.T, cluster *kube.Cluster) {
	s := &webhookSite{T: t, cluster: cluster}
	remove := func(ref kube.Ref) {
		t.Helper()
		objects, err := cluster.Objects(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if err := objects.Delete(t.Context(), ref.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const group = "admissionregistration.k8s.io"
	controlplane.Apply(t, cluster, policies)
	s.until("the policy holds", func() bool {
		_, err := s.create("{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: policed}}")
		if err == nil { // not yet
			remove(kube.Ref{Group: group, Version: "v1", Kind: "ValidatingWebhookConfiguration", Name: "policed"})
		}
		return apierrors.IsInvalid(err)
	})
	dir := t.TempDir()
	if err := fixture.WriteProgram(filepath.Join(dir, "hook.sh"), "#!/bin/bash\ncat <<'EOC'\n"+webhookConfig("kubernetesValidating", "a.example.com", "true")+"\nEOC\n"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	address, over := make(chan string, 1), make(chan error)
	go func() {
		over <- operator.Run(ctx, operator.Options{
			Options: engine.Options{HooksDir: dir, Cluster: cluster, MetricsPrefix: "o_", Runner: hook.Runner{TempDir: t.TempDir()}}, Listen: "127.0.0.1:0",
			Listening: func(at string) { address <- at },
			Webhooks:  webhook.Options{Namespace: "default", ConfigurationName: "policed", Admission: webhook.Endpoint{Listen: "127.0.0.1:0", Service: "policed"}},
		})
	}()
	url := "http://" + <-address + "/readyz"
	ready := func() (int, string) {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	s.until("it is not ready", func() bool {
		code, text := ready()
		return code == http.StatusInternalServerError && strings.Contains(text, "the API server does not call all hooks: ") && strings.Contains(text, "the site has no webhooks")
	})
	remove(kube.Ref{Group: group, Version: "v1", Kind: "ValidatingAdmissionPolicyBinding", Name: "no-webhooks"})
	s.until("it is ready", func() bool { code, _ := ready(); return code == http.StatusOK })
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
