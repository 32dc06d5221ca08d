package access

import (
	"encoding/base64"
	"fmt"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sealift/sealift/spec"
)

// Login returns a kubeconfig for everybody who logs in at an issuer. It has no secret: kubectl gets a token from its plugin oidc-login
// (https://github.com/int128/kubelogin), which each person has to install.
func Login(to Cluster, at spec.Issuer) ([]byte, error) {
	args := []string{"oidc-login", "get-token", "--oidc-issuer-url=" + at.URL, "--oidc-client-id=" + at.Audiences[0]}
	for _, scope := range scopes(at.Claims) {
		args = append(args, "--oidc-extra-scope="+scope)
	}
	if at.CACertificate != "" {
		args = append(args, "--certificate-authority-data="+base64.StdEncoding.EncodeToString([]byte(at.CACertificate)))
	}
	const person = "oidc"
	context := person + "@" + to.Name
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{to.Name: {Server: to.Server, CertificateAuthorityData: to.CA}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{person: {Exec: &clientcmdapi.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1", Command: "kubectl", Args: args, InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode,
			InstallHint: "install the plugin oidc-login of kubectl: https://github.com/int128/kubelogin",
		}}},
		Contexts:       map[string]*clientcmdapi.Context{context: {Cluster: to.Name, AuthInfo: person}},
		CurrentContext: context,
	})
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	return kubeconfig, nil
}

// scopes are those that the claims usually need beside openid (OpenID Connect Core 1.0, section 5.4; "groups" is a custom of issuers).
func scopes(c spec.Claims) (all []string) {
	switch {
	case c.Username == "email":
		all = append(all, "email")
	case c.Username == "preferred_username" || strings.HasSuffix(c.Username, "name"):
		all = append(all, "profile")
	}
	if c.Groups == "groups" {
		all = append(all, "groups")
	}
	return all
}
