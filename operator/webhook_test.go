package operator_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
)

func TestWebhooks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may listen on port 443, which the API server asks for")
	}
	config := controlplane.ForTest(t)
	cluster, err := kube.Connect(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &webhookSite{T: t, config: config, cluster: cluster, trace: t.TempDir(), certs: t.TempDir()}
	s.renew()
	s.must("{apiVersion: v1, kind: Namespace, metadata: {name: webhooks, labels: {guarded: 'yes'}}}")
	s.must(paint("allowed", "listed"))
	for n, name := range []string{"guard", "converter"} {
		s.must(fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {namespace: webhooks, name: %s}, spec: {type: ExternalName, externalName: %s}}", name, address(t, byte(n+1))))
	}
	stop := s.start(map[string]string{"guard.sh": guard, "painter.sh": painter, "converter.sh": converter})
	n := 0
	s.until("red is refused", func() bool {
		n++
		_, err := s.create(paint(fmt.Sprintf("first%d", n), "red"))
		if err != nil && n%50 == 0 {
			t.Log(err)
		}
		return apierrors.IsForbidden(err)
	})
	for _, one := range []struct {
		name string
		test func(*webhookSite)
	}{
		{"a hook refuses and allows", testRefusals},
		{"the configuration is upstream's", testConfiguration},
		{"a context has no key more or less", testReviewContext},
		{"a hook that hangs is stopped, and the failure policy holds", testHang},
		{"a hook changes", testMutation},
		{"hooks convert, step by step", testConversion},
		{"a certificate is replaced meanwhile", testReplacedCertificate},
	} {
		t.Run(one.name, func(t *testing.T) {
			sub := *s
			sub.T = t
			one.test(&sub)
		})
	}
	stop()
	s.start(map[string]string{"painter.sh": painter})
	s.until("webhooks that no hook has any more are removed", func() bool {
		_, err := s.get(configurationRef("ValidatingWebhookConfiguration"))
		return apierrors.IsNotFound(err)
	})
	if out := s.must("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: webhooks, name: last}}"); out.Object["data"] == nil {
		t.Error("the webhook of the hook that is left is gone, too")
	}
}

func configurationRef(kind string) kube.Ref {
	return kube.Ref{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind, Name: "mine-hooks"}
}

func testRefusals(s *webhookSite) {
	for _, row := range []struct {
		color, want string
		code        int32
	}{
		{"green", "", 0},
		{"listed", "", 0},
		{"red", `admission webhook "guard.example.com" denied the request: red is not allowed`, 403},
		{"teapot", "short and stout", 418},
		{"broken", "Hook failed", 403},
		{"silent", "hook guard.sh: it wrote nothing to $ADMISSION_RESPONSE_PATH", 500},
	} {
		_, err := s.create(paint("refusal-"+row.color, row.color))
		if row.want == "" {
			if err != nil {
				s.Errorf("%s: %v", row.color, err)
			}
			continue
		}
		status := apierrors.APIStatus(nil)
		if ok := errorsAs(err, &status); !ok || status.Status().Code != row.code || !strings.Contains(err.Error(), row.want) {
			s.Errorf("%s: %v", row.color, err)
		}
	}
	seen := &warnings{}
	config := rest.CopyConfig(s.config)
	config.WarningHandler = seen
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.Fatal(err)
	}
	old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Data: map[string]string{"color": "old"}}
	if _, err := client.CoreV1().ConfigMaps("webhooks").Create(s.Context(), old, metav1.CreateOptions{}); err != nil || !slices.Equal(seen.all, []string{"old is going away"}) {
		s.Errorf("warnings %v, %v", seen.all, err)
	}
}

func errorsAs(err error, target *apierrors.APIStatus) bool {
	status, ok := err.(apierrors.APIStatus)
	*target = status
	return ok
}

func testConfiguration(s *webhookSite) {
	live, err := s.get(configurationRef("ValidatingWebhookConfiguration"))
	if err != nil {
		s.Fatal(err)
	}
	webhooks, _, _ := unstructured.NestedSlice(live.Object, "webhooks")
	client, _, _ := unstructured.NestedMap(webhooks[0].(map[string]any), "clientConfig")
	authority, _ := client["caBundle"].(string)
	delete(client, "caBundle")
	got := webhooks[0].(map[string]any)
	got["clientConfig"] = client
	var want map[string]any
	if err := yaml.Unmarshal([]byte(`
name: guard.example.com
admissionReviewVersions: [v1, v1beta1]
clientConfig: {service: {namespace: webhooks, name: guard, path: /hooks/guard.example.com, port: 443}}
rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], scope: Namespaced}]
failurePolicy: Fail
matchPolicy: Equivalent
namespaceSelector: {matchLabels: {guarded: "yes"}}
objectSelector: {}
sideEffects: None
timeoutSeconds: 10
`), &want); err != nil {
		s.Fatal(err)
	}
	if same(s, got) != same(s, want) || authority == "" || len(webhooks) != 2 {
		s.Errorf("got  %s\nwant %s", same(s, got), same(s, want))
	}
	if policy := webhooks[1].(map[string]any)["failurePolicy"]; policy != "Ignore" {
		s.Errorf("the hook's own failure policy is %v", policy)
	}
}

func same(s *webhookSite, value any) string {
	s.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		s.Fatal(err)
	}
	return string(data)
}

// keys lists the keys of a value and of the maps in it, except those of objects of the cluster.
func keys(value any) string {
	switch v := value.(type) {
	case map[string]any:
		var all []string
		for key, below := range v {
			if slices.Contains([]string{"object", "userInfo", "filterResult"}, key) {
				below = nil
			}
			all = append(all, key+keys(below))
		}
		slices.Sort(all)
		return "{" + strings.Join(all, " ") + "}"
	case []any:
		var all []string
		for _, one := range v {
			all = append(all, keys(one))
		}
		return "[" + strings.Join(all, " ") + "]"
	}
	return ""
}

func (s *webhookSite) context(name string) []any {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(s.trace, name))
	if err != nil {
		s.Fatal(err)
	}
	var all []any
	if err := json.Unmarshal(data, &all); err != nil {
		s.Fatal(err)
	}
	return all
}

func testReviewContext(s *webhookSite) {
	got := s.context("refusal-green")
	const kind = "{group kind version}"
	want := "[{binding review{request{dryRun kind" + kind + " name namespace object oldObject operation options{apiVersion kind} requestKind" + kind +
		" requestResource{group resource version} resource{group resource version} uid userInfo}} snapshots{allowed[{filterResult}]} type}]"
	if keys(got) != want {
		s.Errorf("got  %s\nwant %s", keys(got), want)
	}
	one := got[0].(map[string]any)
	if one["binding"] != "guard.example.com" || one["type"] != "Validating" {
		s.Errorf("%v", one)
	}
}

func testHang(s *webhookSite) {
	begin := time.Now()
	s.must("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: lazy, labels: {lazy: 'yes'}}}")
	if took := time.Since(begin); took < time.Second || took > 40*time.Second {
		s.Errorf("it took %s", took)
	}
	// The hook and its sleep are gone soon after.
	s.until("the hook has ended", func() bool {
		for _, file := range globAll(s, "/proc/[0-9]*/environ") {
			if data, err := os.ReadFile(file); err == nil && strings.Contains(string(data), "TRACE="+s.trace) {
				return false
			}
		}
		return true
	})
}

func globAll(s *webhookSite, pattern string) []string {
	s.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil {
		s.Fatal(err)
	}
	return all
}

func testMutation(s *webhookSite) {
	out := s.must("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: webhooks, name: plain}}")
	if color, _, _ := unstructured.NestedString(out.Object, "data", "color"); color != "blue" {
		s.Errorf("%v", out.Object)
	}
}

func testConversion(s *webhookSite) {
	s.must(gearDefinition) // after the start of the operator
	ref := kube.Ref{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "gears.example.org"}
	s.until("the definition leads to the operator", func() bool {
		live, err := s.get(ref)
		strategy, _, _ := unstructured.NestedString(live.Object, "spec", "conversion", "strategy")
		return err == nil && strategy == "Webhook"
	})
	gear := func(version, name, field string) string {
		return fmt.Sprintf("{apiVersion: example.org/%s, kind: Gear, metadata: {namespace: default, name: %s}, spec: {%s: 7}}", version, name, field)
	}
	s.until("a gear is created", func() bool { _, last := s.create(gear("v1alpha1", "a", "alpha")); return last == nil })
	live, err := s.get(kube.Ref{Group: "example.org", Version: "v1", Kind: "Gear", Namespace: "default", Name: "a"})
	if err != nil {
		s.Fatal(err)
	}
	if spec := same(s, live.Object["spec"]); spec != `{"stable":7}` {
		s.Errorf("in v1 it is %s", spec)
	}
	s.must(gear("v1", "stuck", "stable"))
	if _, err := s.get(kube.Ref{Group: "example.org", Version: "v1beta1", Kind: "Gear", Namespace: "default", Name: "stuck"}); err == nil || !strings.Contains(err.Error(), "stuck cannot go back") {
		s.Errorf("got %v", err)
	}
	for file, from := range map[string]string{"v1alpha1": "v1alpha1", "example.org_v1beta1": "example.org/v1beta1"} {
		got := s.context(file)
		if want := "[{binding fromVersion review{request{desiredAPIVersion objects[{apiVersion kind metadata{"; !strings.HasPrefix(keys(got), want) || !strings.HasSuffix(keys(got), "uid}} toVersion type}]") {
			s.Errorf("%s", keys(got))
		}
		if one := got[0].(map[string]any); one["type"] != "Conversion" || one["fromVersion"] != from {
			s.Errorf("%v", one)
		}
	}
	secret, err := s.get(kube.Ref{Version: "v1", Kind: "Secret", Namespace: "webhooks", Name: "converter-authority"})
	if err != nil || keys(secret.Object["data"]) != "{ca.crt ca.key}" {
		s.Errorf("%v, %v", secret, err)
	}
}

// testReplacedCertificate creates objects all the time, while the certificate and its CA are replaced.
func testReplacedCertificate(s *webhookSite) {
	bundle := func() string {
		live, err := s.get(configurationRef("ValidatingWebhookConfiguration"))
		if err != nil {
			s.Fatal(err)
		}
		webhooks, _, _ := unstructured.NestedSlice(live.Object, "webhooks")
		ca, _, _ := unstructured.NestedString(webhooks[0].(map[string]any), "clientConfig", "caBundle")
		return ca
	}
	before := bundle()
	s.renew()
	text, err := os.ReadFile(filepath.Join(s.certs, "ca.crt"))
	if err != nil {
		s.Fatal(err)
	}
	after := strings.Trim(same(s, text), `"`)
	for n := 0; bundle() != after; n++ {
		if n > 1000 {
			s.Fatalf("the API server still trusts %s, was %s", bundle(), before)
		}
		s.must(paint(fmt.Sprintf("meanwhile%d", n), "green"))
		if _, err := s.create(paint(fmt.Sprintf("refused%d", n), "red")); !apierrors.IsForbidden(err) {
			s.Fatalf("after %d: %v", n, err)
		}
	}
	conn, err := tls.Dial("tcp", net.JoinHostPort(address(s.T, 1), "443"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Close()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	if _, err := conn.ConnectionState().PeerCertificates[0].Verify(x509.VerifyOptions{Roots: pool, DNSName: "guard.webhooks.svc"}); err != nil {
		s.Error(err)
	}
}
