package access_test

import (
	"encoding/base64"
	"slices"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/cluster/access"
	"github.com/sealift/sealift/spec"
)

func TestLoginKubeconfigHasNoSecret(t *testing.T) {
	at := spec.Issuer{URL: "https://login.example.org", Audiences: []string{"kubernetes", "console"}, CACertificate: "CA", Claims: spec.Claims{Username: "email", Groups: "groups"}}
	text, err := access.Login(access.Cluster{Name: "site", Server: "https://10.0.0.1:6443", CA: []byte("cluster")}, at)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	used := config.Contexts[config.CurrentContext]
	person, cluster := config.AuthInfos[used.AuthInfo], config.Clusters[used.Cluster]
	want := []string{"oidc-login", "get-token", "--oidc-issuer-url=https://login.example.org", "--oidc-client-id=kubernetes", "--oidc-extra-scope=email", "--oidc-extra-scope=groups",
		"--certificate-authority-data=" + base64.StdEncoding.EncodeToString([]byte("CA"))}
	if person.Exec == nil || person.Exec.Command != "kubectl" || !slices.Equal(person.Exec.Args, want) || cluster.Server != "https://10.0.0.1:6443" {
		t.Errorf("written as\n%s", text)
	}
	if person.Token != "" || len(person.ClientKeyData) > 0 {
		t.Errorf("it has a secret:\n%s", text)
	}
}
