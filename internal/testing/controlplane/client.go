package controlplane

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
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

// Through reaches an API server through a handler, for failures that the server does not produce on demand. The handler
// calls pass for each request that it lets through.
func Through(t testing.TB, cfg *rest.Config, handle func(w http.ResponseWriter, r *http.Request, pass http.Handler)) *rest.Config {
	t.Helper()
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport, proxy.FlushInterval, proxy.ErrorLog = transport, -1, log.New(io.Discard, "", 0) // immediately, for watches
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, proxy) }))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &rest.Config{Host: server.URL}
}

// Apply applies the objects of a text, in its order, and takes over their fields from every other manager.
func Apply(t testing.TB, cluster *kube.Cluster, text string) {
	t.Helper()
	objects, err := render.Decode(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		ref := kube.RefOf(object)
		of, err := cluster.Objects(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := of.Apply(t.Context(), ref.Name, object, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
}
