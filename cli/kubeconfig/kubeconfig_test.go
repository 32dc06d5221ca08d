package kubeconfig_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/cli/kubeconfig"
)

func TestKubeconfigMistakesAreReported(t *testing.T) {
	const cluster = "clusters: [{name: c, cluster: {server: 'https://192.0.2.1:6443'}}]\n"
	for name, tt := range map[string]struct{ text, want string }{
		"empty":              {"", "does not exist or is empty"},
		"no current-context": {cluster + "contexts: [{name: x, context: {cluster: c}}]\n", "has no current-context; its contexts are x"},
		"no such context":    {cluster + "current-context: other\ncontexts: [{name: x, context: {cluster: c}}]\n", `has no context "other", its current-context; its contexts are x`},
		"no such cluster":    {cluster + "current-context: x\ncontexts: [{name: x, context: {cluster: d}}]\n", `has no cluster "d", which its context "x" names; its clusters are c`},
		"no such user":       {cluster + "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n", `has no user "u", which its context "x" names; its users are none`},
		"no server":          {"clusters: [{name: c, cluster: {}}]\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n", `has no server in its cluster "c"`},
		"no YAML":            {"a: [", "read the kubeconfig "},
		"a missing CA file": {"clusters: [{name: c, cluster: {server: 'https://192.0.2.1', certificate-authority: /nowhere/ca.crt}}]\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n",
			"/nowhere/ca.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := kubeconfig.Load(file, "")
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), file) {
				t.Fatalf("%v", err)
			}
			if strings.Contains(err.Error(), "KUBERNETES_MASTER") || !strings.HasSuffix(err.Error(), "with --kubeconfig") {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := kubeconfig.Load("/nowhere/config", ""); err == nil || strings.Count(err.Error(), "no such file") != 1 {
		t.Errorf("%v", err)
	}
}

func TestContextIsSelectedByName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	text := "clusters: [{name: c, cluster: {server: 'https://192.0.2.1'}}, {name: d, cluster: {server: 'https://192.0.2.2'}}]\n" +
		"current-context: first\ncontexts: [{name: first, context: {cluster: c}}, {name: second, context: {cluster: d}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for context, want := range map[string]string{"": "https://192.0.2.1", "first": "https://192.0.2.1", "second": "https://192.0.2.2"} {
		if cfg, err := kubeconfig.InPodOr(file, context, ""); err != nil || cfg.Host != want {
			t.Errorf("context %q: %v, %v", context, cfg, err)
		}
	}
	for named, want := range map[string]string{file: "http://127.0.0.1:1", filepath.Join(t.TempDir(), "none"): ""} {
		t.Setenv("KUBECONFIG", named)
		if cfg, err := kubeconfig.InPodOr("", "", "http://127.0.0.1:1"); err != nil || cfg.Host != cmp.Or(want, "http://127.0.0.1:1") {
			t.Errorf("another server than that of %s: %v, %v", named, cfg, err)
		}
	}
	t.Setenv("KUBECONFIG", "")
	if _, err := kubeconfig.Load(file, "third"); err == nil || !strings.Contains(err.Error(), `has no context "third"`) {
		t.Errorf("%v", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "192.0.2.3")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	t.Setenv("KUBECONFIG", "")
	if _, err := kubeconfig.InPodOr("", "", ""); err == nil || !strings.Contains(err.Error(), "ServiceAccount token") {
		t.Errorf("in a Pod without a token: %v", err)
	}
}
