package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// guardHook refuses ConfigMaps that are red. It warns with a value that only the leader has in memory, and with the operator
// that has answered: its parent.
const guardHook = `#!/bin/bash
if [[ $1 == --config ]]; then cat <<'EOF'
configVersion: v1
onStartup: 1
kubernetesValidating:
- name: %s.example.com
  namespace: {labelSelector: {matchLabels: {guarded: "yes"}}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
EOF
exit; fi
if [[ $(jq -r .[0].binding $BINDING_CONTEXT_PATH) == onStartup ]]; then
  echo '{"op":"add","path":"/guard/word","value":"memory"}' > $VALUES_JSON_PATCH_PATH
  exit
fi
jq --arg by "$(jq -r .guard.word $VALUES_PATH) $PPID" '{allowed: (.[0].review.request.object.data.color != "red"), warnings: [$by]}' $BINDING_CONTEXT_PATH > $VALIDATING_RESPONSE_PATH
`

// tunnel accepts connections as a Service does, and leads them to one address.
func tunnel(t *testing.T, from, to string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", to)
				if err != nil {
					return
				}
				defer out.Close()
				go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
}

// eventLog are the warnings that the API server has sent.
type eventLog struct {
	mu  sync.Mutex
	all []string
}

func (h *eventLog) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, text)
}

func (h *eventLog) last() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) == 0 {
		return ""
	}
	return h.all[len(h.all)-1]
}

// replicas are two operators of one set of modules, and a cluster whose Service leads to the second.
type replicas struct {
	*testing.T

	client        *kubernetes.Clientset
	said          *eventLog
	first, second *operatorProcess
	painted       int
}

// TestModulesRunWithReplicas has the API server ask a standby all the time, and kills the leader: no request fails, the leader's
// values count while it lives, and the standby converges without a new revision.
func TestModulesRunWithReplicas(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may listen on port 443, which the API server asks for")
	}
	s := startReplicas(t)
	s.until("the webhook is asked", func() bool { return apierrors.IsForbidden(s.paint("red")) })
	if got, want := s.said.last(), fmt.Sprintf("memory %d", s.first.cmd.Process.Pid); got != want {
		t.Errorf("the standby was asked, and %q answered, not %q", got, want)
	}
	for range 3 {
		s.judge()
	}
	go func() { time.Sleep(100 * time.Millisecond); _ = s.first.cmd.Process.Kill() }() // while requests are under way
	s.until("the second leads and has converged", func() bool {
		s.judge()
		code, _ := s.second.get("/readyz")
		return strings.Contains(s.second.log.String(), "this operator leads") && code == http.StatusOK
	})
	s.judge()
	if got := s.said.last(); !strings.HasSuffix(got, fmt.Sprint(" ", s.second.cmd.Process.Pid)) {
		t.Errorf("after the kill, %q answered, not the second", got)
	}
	t.Logf("%d requests were allowed or refused as they should", s.painted)
	if got := s.registered(); !slices.Equal(got, []string{"guard.example.com"}) {
		t.Errorf("the API server asks %v", got)
	}
	releases, err := s.client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil || len(releases.Items) != 1 || releases.Items[0].Name != "sh.helm.release.v1.guard.v1" {
		t.Errorf("there are %d revisions, %v", len(releases.Items), err)
	}
	if strings.Contains(s.second.log.String(), "a release was upgraded") {
		t.Errorf("the second has upgraded\n%s", s.second.log)
	}
}

// startReplicas starts both, and waits until the first has converged and the second stands by.
func startReplicas(t *testing.T) *replicas {
	dir, host := t.TempDir(), func(n byte) string { // of 127.0.0.0/8, which no other process uses
		return fmt.Sprintf("127.%d.%d.%d", 90+os.Getpid()>>16&0x7, os.Getpid()>>8&0xff, byte(os.Getpid())&0xf8|n)
	}
	config, cfg := filepath.Join(dir, "config"), rest.CopyConfig(controlplane.ForTest(t))
	if err := controlplane.WriteKubeconfig(config, cfg); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"modules/values.yaml":                "guardEnabled: true\n",
		"modules/001-guard/templates/x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: guard}\n",
		"modules/001-guard/hooks/guard.sh":   fmt.Sprintf(guardHook, "guard"),
		"modules/002-off/hooks/guard.sh":     fmt.Sprintf(guardHook, "off"),
		"global/.keep":                       "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := fixture.WriteProgram(path, text); err != nil {
			t.Fatal(err)
		}
	}
	s := &replicas{T: t, said: &eventLog{}}
	cfg.WarningHandler, cfg.QPS = s.said, -1
	var err error
	if s.client, err = kubernetes.NewForConfig(cfg); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "guarded", Labels: map[string]string{"guarded": "yes"}}}
	if _, err := s.client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "guard"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: host(3)}}
	if _, err := s.client.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tunnel(t, host(3)+":443", host(2)+":9680")
	port := freePort(t)
	start := func(n byte) *operatorProcess {
		return startOperator(t, dir, config, host(n), port, "--modules-dir", filepath.Join(dir, "modules"), "--global-hooks-dir", filepath.Join(dir, "global"),
			"--validating-webhook-listen-address", host(n), "--validating-webhook-service-name", "guard")
	}
	s.first = start(1)
	s.until("the first has converged", func() bool { code, _ := s.first.get("/readyz"); return code == http.StatusOK })
	s.second = start(2)
	s.until("the second is ready, because the first is", func() bool { code, _ := s.second.get("/readyz"); return code == http.StatusOK })
	return s
}

func (s *replicas) until(what string, reached func() bool) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Log(s.first.log.String())
			if s.second != nil {
				s.Log(s.second.log.String())
			}
			s.Fatalf("%s: not within a minute", what)
		}
	}
}

func (s *replicas) paint(color string) error {
	s.painted++
	_, err := s.client.CoreV1().ConfigMaps("guarded").Create(s.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("map-%d", s.painted)}, Data: map[string]string{"color": color},
	}, metav1.CreateOptions{})
	return err
}

// judge makes two requests. The hook has to refuse one of them.
func (s *replicas) judge() {
	s.Helper()
	if err := s.paint("blue"); err != nil {
		s.Errorf("request %d: %v", s.painted, err)
	}
	if err := s.paint("red"); !apierrors.IsForbidden(err) {
		s.Errorf("request %d, which is to be refused: %v", s.painted, err)
	}
}

// registered lists the webhooks that the API server calls.
func (s *replicas) registered() (names []string) {
	s.Helper()
	all, err := s.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, c := range all.Items {
		for _, w := range c.Webhooks {
			names = append(names, w.Name)
		}
	}
	return names
}
