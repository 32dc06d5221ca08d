package cluster

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClusterConnectionsBypassProxy(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "https_proxy", "NO_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://proxy.example.com:3128")
	}
	var seen bytes.Buffer
	if err := run(t.Context(), &seen, "sh", "-c", "env"); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(seen.String(), "proxy.example.com") || !strings.Contains(seen.String(), "PATH="+os.Getenv("PATH")) {
		t.Errorf("kubeadm has the environment\n%s", &seen)
	}
	kubeconfig := filepath.Join(t.TempDir(), "admin.conf")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: 'https://lb.example.com:6443'}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := Config(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	if config.Proxy == nil {
		t.Fatal("the proxy of the environment is asked for the API")
	}
	if via, err := config.Proxy(request); via != nil || err != nil {
		t.Errorf("the API is asked through %v, %v", via, err)
	}
}
