package agent

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/registration"
)

// TestIdentityIsRenewed shows when an agent requests another certificate: a fifth of its time is left, or the hub wants another
// subject.
func TestIdentityIsRenewed(t *testing.T) {
	registrations := []ocm.Registration{{Type: ocm.KubeClient}}
	who := registration.Identities("oslo", "hello", registrations)[0]
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now().Truncate(time.Second)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: subject(who), NotBefore: began, NotAfter: began.Add(10 * time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	data := map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
	other := registration.Identities("oslo", "other", registrations)[0]
	for name, tt := range map[string]struct {
		data map[string][]byte
		who  ocm.RegistrationInfo
		at   time.Duration
		want bool
	}{
		"fresh":                   {data, who, 0, true},
		"before the last fifth":   {data, who, 7*time.Hour + 59*time.Minute, true},
		"in the last fifth":       {data, who, 8*time.Hour + time.Minute, false},
		"of another identity":     {data, other, 0, false},
		"no certificate yet":      {nil, who, 0, false},
		"a certificate, no key":   {map[string][]byte{"tls.crt": data["tls.crt"]}, who, 0, false},
		"something else than PEM": {map[string][]byte{"tls.crt": []byte("x"), "tls.key": data["tls.key"]}, who, 0, false},
	} {
		if got := valid(tt.data, tt.who, began.Add(tt.at)); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if name := secretOf("hello", registration.KubeSigner); name != "hello-hub-kubeconfig" {
		t.Error(name) // the name that templates mount
	}
	a := &agent{Options: Options{Hub: &rest.Config{Host: "https://hub:6443", TLSClientConfig: rest.TLSClientConfig{CAData: data["tls.crt"]}}, Cluster: "oslo"}}
	if err := a.describe(data, "hello"); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(data["kubeconfig"])
	if err != nil || config.Clusters["hub"].Server != "https://hub:6443" || config.AuthInfos["hello"].ClientKey != "tls.key" || config.Contexts[config.CurrentContext].Namespace != "oslo" {
		t.Errorf("%s %v", data["kubeconfig"], err)
	}
	// the API server is one that keeps Secrets only
	stored := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "hello-hub-kubeconfig", Namespace: "default"}, Data: data}
	kept := fake.NewClientset(stored)
	a.reader = kept
	if err := a.describeAgain(t.Context(), stored.DeepCopy(), "hello"); err != nil || len(kept.Actions()) > 0 {
		t.Errorf("nothing has changed: %v %v", kept.Actions(), err)
	}
	a.Hub.Host = "https://new:6443"
	if err := a.describeAgain(t.Context(), stored.DeepCopy(), "hello"); err != nil {
		t.Fatal(err)
	}
	after, err := kept.CoreV1().Secrets("default").Get(t.Context(), stored.Name, metav1.GetOptions{})
	if err != nil || !strings.Contains(string(after.Data["kubeconfig"]), "https://new:6443") || !bytes.Equal(after.Data["tls.crt"], data["tls.crt"]) {
		t.Errorf("%s %v", after.Data["kubeconfig"], err)
	}
}
