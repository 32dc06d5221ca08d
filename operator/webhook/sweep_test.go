package webhook

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/binding"
)

// TestSweepRegistersNoWebhooks: hooks get webhooks while the operator waits to lead, and the port for them is taken. Configurations of
// an earlier run are deleted. None is written, since nobody would answer.
func TestSweepRegistersNoWebhooks(t *testing.T) {
	cluster, err := kube.Connect(controlplane.ForTest(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := fixture.CA(t)
	pair := fixture.ClientCertificate(t, dir, "webhooks")
	var leads atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	s := New(ctx, Options{Cluster: cluster, Namespace: "ops", ConfigurationName: "mine", Leads: leads.Load, Admission: Endpoint{
		Listen: taken.Addr().String(), Service: "svc", CertFile: pair, KeyFile: pair, CAFile: filepath.Join(dir, "ca.crt"),
	}})
	defer func() { cancel(); s.Wait() }()
	exists := func(kind string) bool {
		t.Helper()
		objects, err := cluster.Objects(t.Context(), kube.Ref{Group: admissionregistration.GroupName, Version: "v1", Kind: kind})
		if err == nil {
			_, err = objects.Get(t.Context(), "mine"+configurationSuffix, metav1.GetOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	controlplane.Apply(t, cluster, `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: mine-hooks}, webhooks: [
{name: old.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {namespace: ops, name: svc, path: /hooks/old.b.c}}}]}`)

	if err := s.Set(nil); err != nil {
		t.Fatal(err)
	}
	ignore := admissionregistration.Ignore
	err = s.Set([]Hook{{Name: "hook.sh", Config: &binding.Config{Validating: []binding.Admission{{
		Common: binding.Common{Name: "a.b.c"}, Timeout: 1, SideEffects: admissionregistration.SideEffectClassNone, FailurePolicy: &ignore,
	}}}}})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatal(err)
	}
	leads.Store(true)
	s.admission.sweep(ctx)
	if exists(validatingKind) || !exists(mutatingKind) {
		t.Error("configurations were written or deleted while the endpoint is about to open")
	}
	s.admission.needed.Store(false) // Set has added the hook and is about to say so
	s.admission.sweep(ctx)
	if exists(validatingKind) {
		t.Error("a webhook is registered that nobody serves")
	}
	if exists(mutatingKind) {
		t.Error("the configuration of an earlier run is left")
	}
}
