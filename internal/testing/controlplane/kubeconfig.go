package controlplane

import (
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes the file by which programs reach a control plane as its administrator.
func WriteKubeconfig(name string, c *rest.Config) error {
	const one = "testgrid"
	file := clientcmdapi.NewConfig()
	file.Clusters[one] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthorityData: c.CAData}
	file.AuthInfos[one] = &clientcmdapi.AuthInfo{ClientCertificateData: c.CertData, ClientKeyData: c.KeyData}
	file.Contexts[one] = &clientcmdapi.Context{Cluster: one, AuthInfo: one}
	file.CurrentContext = one
	return clientcmd.WriteToFile(*file, name)
}
