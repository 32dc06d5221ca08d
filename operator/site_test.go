package operator_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
	"github.com/sealift/sealift/operator"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/hook"
	"github.com/sealift/sealift/operator/webhook"
)

// guard refuses invalid ConfigMaps, warns of old ones, and fails, returns nothing, or hangs on request.
const guard = `#!/bin/bash
source "$FRAMEWORK_DIR/shell_lib.sh"
function __config__() {
    cat <<EOC
configVersion: v1
kubernetes:
- {name: allowed, kind: ConfigMap, executeHookOnEvent: [], executeHookOnSynchronization: false, keepFullObjectsInMemory: false, jqFilter: .data, nameSelector: {matchNames: [allowed]}, namespace: {nameSelector: {matchNames: [webhooks]}}}
kubernetesValidating:
- name: guard.example.com
  includeSnapshotsFrom: [allowed]
  namespace: {labelSelector: {matchLabels: {guarded: "yes"}}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], scope: Namespaced}]
- name: lazy.example.com
  failurePolicy: Ignore
  timeoutSeconds: 1
  labelSelector: {matchLabels: {lazy: "yes"}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]
EOC
}
function __on_validating::guard.example.com() {
    cp "$BINDING_CONTEXT_PATH" "$TRACE/$(context::get review.request.name)"
    case $(context::get review.request.object.data.color) in
    red) echo '{"allowed": false, "message": "red is not allowed"}' ;;
    teapot) echo '{"allowed": false, "message": "short and stout", "code": 418}' ;;
    old) echo '{"allowed": true, "warnings": ["old is going away"]}' ;;
    broken) exit 1 ;;
    silent) ;;
    listed) jq '{allowed: (.[0].snapshots.allowed[0].filterResult.color == "listed")}' "$BINDING_CONTEXT_PATH" ;;
    *) echo '{"allowed": true}' ;;
    esac > "$VALIDATING_RESPONSE_PATH"
}
function __on_validating::lazy.example.com() { sleep 60; }
hook::run "$@"
`

// painter sets a color on ConfigMaps without one.
const painter = `#!/bin/bash
source "$FRAMEWORK_DIR/shell_lib.sh"
function __config__() {
    cat <<EOC
configVersion: v1
kubernetesMutating:
- name: painter.example.com
  namespace: {labelSelector: {matchLabels: {guarded: "yes"}}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
EOC
}
function __on_mutating::painter.example.com() {
    patch='[]'
    context::has review.request.object.data || patch='[{"op": "add", "path": "/data", "value": {"color": "blue"}}]'
    jq -n --arg patch "$(base64 -w0 <<<"$patch")" '{allowed: true, patch: $patch}' > "$ADMISSION_RESPONSE_PATH"
    echo '{"name":"painted","add":1}' > "$METRICS_PATH"
}
hook::run "$@"
`

// converter takes Gears one step at a time: v1alpha1 to v1beta1 to v1, and back to v1beta1.
const converter = `#!/bin/bash
source "$FRAMEWORK_DIR/shell_lib.sh"
function __config__() {
    cat <<EOC
configVersion: v1
kubernetesCustomResourceConversion:
- {name: up, crdName: gears.example.org, conversions: [{fromVersion: v1alpha1, toVersion: v1beta1}, {fromVersion: example.org/v1beta1, toVersion: example.org/v1}]}
- {name: down, crdName: gears.example.org, conversions: [{fromVersion: v1, toVersion: v1beta1}]}
- {name: oldest, crdName: gears.example.org, conversions: [{fromVersion: v1beta1, toVersion: v1alpha1}]}
EOC
}
function answer() { jq '{convertedObjects: [.[0].review.request.objects[] | '"$1"']}' "$BINDING_CONTEXT_PATH" > "$CONVERSION_RESPONSE_PATH"; cp "$BINDING_CONTEXT_PATH" "$TRACE/$(context::get fromVersion | tr / _)"; }
function __on_conversion::up::v1alpha1::v1beta1() { answer '.apiVersion = "example.org/v1beta1" | .spec.beta = .spec.alpha | del(.spec.alpha)'; }
function __on_conversion::up::example.org.v1beta1::example.org.v1() { answer '.apiVersion = "example.org/v1" | .spec.stable = .spec.beta | del(.spec.beta)'; }
function __on_conversion::down() {
    if jq -e '.[0].review.request.objects | any(.metadata.name == "stuck")' "$BINDING_CONTEXT_PATH" >/dev/null; then
        echo '{"failedMessage": "stuck cannot go back"}' > "$CONVERSION_RESPONSE_PATH"
    else
        answer '.apiVersion = "example.org/v1beta1" | .spec.beta = .spec.stable | del(.spec.stable)'
    fi
}
function __on_conversion::oldest() { answer '.apiVersion = "example.org/v1alpha1" | .spec.alpha = .spec.beta | del(.spec.beta)'; }
hook::run "$@"
`

const gearDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gears.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Gear, plural: gears}
  versions:
  - {name: v1, served: true, storage: true, schema: &schema {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}
  - {name: v1beta1, served: true, storage: false, schema: *schema}
  - {name: v1alpha1, served: true, storage: false, schema: *schema}
`

// webhookSite is a cluster whose Services lead to an operator of this test, by addresses of the loopback interface.
type webhookSite struct {
	*testing.T

	config       *rest.Config
	cluster      *kube.Cluster
	trace, certs string
}

// warnings are those that the API server sent.
type warnings struct{ all []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.all = append(w.all, text) }

// address is one of 127.0.0.0/8 that no other process of this machine uses with port 443, which the API server requires.
func address(t *testing.T, n byte) string {
	t.Helper()
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 100+pid>>16&0x7f, pid>>8&0xff, byte(pid)&0xf8|n)
}

func (s *webhookSite) create(doc string) (*unstructured.Unstructured, error) {
	s.Helper()
	objs, err := render.Decode(strings.NewReader(doc))
	if err != nil {
		s.Fatal(err)
	}
	ref := kube.RefOf(objs[0])
	objects, err := s.cluster.Objects(s.Context(), ref)
	if err != nil {
		return nil, err
	}
	return objects.Create(s.Context(), objs[0], metav1.CreateOptions{})
}

func (s *webhookSite) must(doc string) *unstructured.Unstructured {
	s.Helper()
	out, err := s.create(doc)
	if err != nil {
		s.Fatalf("%s: %v", doc, err)
	}
	return out
}

func (s *webhookSite) get(ref kube.Ref) (*unstructured.Unstructured, error) {
	s.Helper()
	objects, err := s.cluster.Objects(s.Context(), ref)
	if err != nil {
		s.Fatal(err)
	}
	return objects.Get(s.Context(), ref.Name, metav1.GetOptions{})
}

func (s *webhookSite) until(what string, reached func() bool) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("%s: not within a minute", what)
		}
	}
}

func paint(name, color string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: webhooks, name: %s}, data: {color: %s}}", name, color)
}

// renew writes a certificate for the Service by a new CA.
func (s *webhookSite) renew() {
	s.Helper()
	ca := fixture.CA(s.T)
	pair, err := tls.LoadX509KeyPair(filepath.Join(ca, "ca.crt"), filepath.Join(ca, "ca.key"))
	if err != nil {
		s.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "guard"}, DNSNames: []string{"guard.webhooks.svc"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, pair.Leaf, key.Public(), pair.PrivateKey)
	if err != nil {
		s.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.Fatal(err)
	}
	authority, err := os.ReadFile(filepath.Join(ca, "ca.crt"))
	if err != nil {
		s.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), "ca.crt": authority,
	} {
		if err := os.WriteFile(filepath.Join(s.certs, name), text, 0o600); err != nil {
			s.Fatal(err)
		}
	}
}

// start runs an operator with hooks until the returned function is called.
func (s *webhookSite) start(hooks map[string]string) (stop func()) {
	s.Helper()
	dir := s.TempDir()
	for name, text := range hooks {
		if err := fixture.WriteProgram(filepath.Join(dir, name), text); err != nil {
			s.Fatal(err)
		}
	}
	files := func(name string) string { return filepath.Join(s.certs, name) }
	ctx, cancel := context.WithCancel(s.Context())
	over := make(chan error)
	go func() {
		over <- operator.Run(ctx, operator.Options{
			Options: engine.Options{HooksDir: dir, Cluster: s.cluster, Log: slog.New(slog.NewTextHandler(s.Output(), nil)), MetricsPrefix: "o_",
				Runner: hook.Runner{TempDir: s.TempDir(), Set: []string{"TRACE=" + s.trace}}},
			Listen: "127.0.0.1:0",
			Webhooks: webhook.Options{
				Namespace: "webhooks", ConfigurationName: "mine",
				Admission:  webhook.Endpoint{Listen: net.JoinHostPort(address(s.T, 1), "443"), Service: "guard", CertFile: files("tls.crt"), KeyFile: files("tls.key"), CAFile: files("ca.crt")},
				Conversion: webhook.Endpoint{Listen: net.JoinHostPort(address(s.T, 2), "443"), Service: "converter"},
			},
		})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(stop)
	return stop
}
