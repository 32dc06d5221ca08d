package cluster

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// seal does what kubeadm does with a certificate.
func seal(t *testing.T, key string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(key)
	if err != nil || len(raw) != 32 {
		t.Fatalf("%q: %v", key, err)
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, gcm.NonceSize())
	_, _ = rand.Read(nonce)
	return gcm.Seal(nonce, nonce, []byte("a certificate"), nil)
}

// TestJoinCommandsShareTheirCertificateKey makes one command for joining after another, on several control planes.
func TestJoinCommandsShareTheirCertificateKey(t *testing.T) {
	t.Parallel()
	ca := []byte("the key of the CA")
	salt, key, err := certificateKey(t.Context(), fake.NewClientset(), ca)
	if err != nil || salt == "" {
		t.Fatal(salt, err)
	}
	stored := func(salt string, data map[string][]byte) *fake.Clientset {
		return fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: sealedCertificates, Annotations: map[string]string{saltAnnotation: salt}}, Data: data})
	}
	other := hex.EncodeToString(make([]byte, 32))
	for why, row := range map[string]struct {
		client *fake.Clientset
		ca     []byte
		same   bool
	}{
		"while the certificates are there":      {stored(salt, map[string][]byte{"ca.crt": seal(t, key), "ca.key": seal(t, key)}), ca, true},
		"after they have expired":               {fake.NewClientset(), ca, false},
		"after kubeadm sealed them itself":      {stored("", map[string][]byte{"ca.crt": seal(t, other)}), ca, false},
		"with a salt that is not of their key":  {stored("ABC", map[string][]byte{"ca.crt": seal(t, key)}), ca, false},
		"after the CA was rotated":              {stored(salt, map[string][]byte{"ca.crt": seal(t, key)}), []byte("another key"), false},
		"with a certificate that nobody sealed": {stored(salt, map[string][]byte{"ca.crt": nil}), ca, false},
	} {
		nextSalt, next, err := certificateKey(t.Context(), row.client, row.ca)
		if err != nil || len(next) != 64 || (next == key) != row.same || (nextSalt == salt) != row.same {
			t.Errorf("%s: %s of %s, %v", why, next, nextSalt, err)
		}
	}
	client := stored(salt, map[string][]byte{"ca.crt": seal(t, key)})
	for given, want := range map[string]bool{key: true, other: false, "": false} {
		if got, err := HoldsCertificateKey(t.Context(), client, given); got != want || err != nil {
			t.Errorf("%q: %t, %v", given, got, err)
		}
	}
}
