package service

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/share"
)

func TestWorkerGetsJoinData(t *testing.T) {
	root := t.TempDir()
	for addOn, script := range map[string]string{"fabric/1.0": "fabric_join() { :; }\n", "database/1.0": "database() { :; }\n"} {
		dir := filepath.Join(root, "addons", addOn)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "install.sh"), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const head = "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata:\n  name: x\nspec:\n"
	got, err := workerInstaller(root, []byte(head+`
  containerd: {version: "2.0", tomlConfig: "version = 3"}
  database: {version: "1.0", size: 3, adminPassword: hunter2}
  helm: {helmfileSpec: "password: hunter2"}
  kubernetes: {version: 1.36.3, certKey: hunter2, bootstrapToken: hunter2, kubeadmToken: hunter2, containerLogMaxFiles: 3}
  kurl: {proxyAddress: "http://10.0.0.1:3128", licenseURL: "https://x/hunter2"}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := head + `  containerd:
    version: "2.0"
    tomlConfig: version = 3
  database:
    version: "1.0"
  kubernetes:
    version: 1.36.3
    containerLogMaxFiles: 3
  kurl:
    proxyAddress: http://10.0.0.1:3128
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	got, err = workerInstaller(root, []byte(head+`
  fabric: {version: "1.0", range: 10.0.0.0/16, pskToken: hunter2, nested: {apiKey: hunter2, level: 1, list: [{password: hunter2, x: y}]}, pem: "-----BEGIN EC PRIVATE KEY-----hunter2"}
`))
	if err != nil {
		t.Fatal(err)
	}
	want = head + `  fabric:
    version: "1.0"
    nested:
      level: 1
      list:
        - x: "y"
    range: 10.0.0.0/16
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestControlPlaneJoinNeedsCertificateKey(t *testing.T) {
	const key = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	raw, _ := hex.DecodeString(key)
	block, err := aes.NewCipher(raw)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, gcm.NonceSize())
	client := fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-certs"}, Data: map[string][]byte{"ca.key": gcm.Seal(nonce, nonce, []byte("the key of the CA"), nil)},
	})
	for got, right := range map[string]bool{key: true, strings.Repeat("0", 64): false, "": false, "zz": false, key[:32]: false} {
		if err := holdsCertificateKey(t.Context(), client, got); right != (err == nil) {
			t.Errorf("with the key %q: %v", got, err)
		}
	}
	if err := holdsCertificateKey(t.Context(), fake.NewClientset(), key); err == nil {
		t.Error("without certificates in the cluster")
	}
}

func TestOnlyNodesOfClusterAreServed(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "host-2"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "host-4"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "host-5"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: cluster.RemovedConfig}, Data: map[string]string{
			"host-4": `{"removed":"2026-03-01T12:00:00Z"}`, "host-5": `{"removed":"2026-03-01T12:00:00Z","joined":"2026-03-01T14:00:00Z"}`}})
	at := func(clock string) time.Time {
		since, err := time.Parse(time.RFC3339, "2026-03-01T"+clock+"Z")
		if err != nil {
			t.Fatal(err)
		}
		return since
	}
	for why, row := range map[string]struct {
		node   string
		since  time.Time
		served bool
	}{
		"a node":                                   {"host-2", at("00:00:00"), true},
		"a node that the cluster lacks":            {"host-3", at("00:00:00"), false},
		"a removed node that is there again":       {"host-4", at("13:00:00"), false},
		"the old certificate of a node's name":     {"host-5", at("11:00:00"), false},
		"the certificate with which it came again": {"host-5", at("13:55:01"), true}, // the cluster dates them back by five minutes
		"a later one":                              {"host-5", at("15:00:00"), true},
	} {
		if err := isNode(t.Context(), client, row.node, row.since); (err == nil) != row.served || err != nil && !errors.Is(err, share.ErrMember) {
			t.Errorf("%s: %v", why, err)
		}
	}
}
