package controlplane

import (
	"strings"
	"testing"
)

func TestControlPlaneAddressIsReadFromManifest(t *testing.T) {
	const annotation = "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: "
	for manifest, want := range map[string]string{
		annotation + "10.0.0.1:6443\n":             "10.0.0.1",
		annotation + "\"10.0.0.1:6443\"\n":         "10.0.0.1",
		annotation + "'[fd00:5ea:11f7::2]:6443'\n": "fd00:5ea:11f7::2", // as kubeadm writes it
		annotation + "fd00:5ea:11f7::2\n":          "error: too many colons",
		"metadata: {annotations: {}}\n":            "error: does not tell the address",
		"metadata: [\n":                            "error: kube-apiserver.yaml",
	} {
		got, err := Advertised([]byte(manifest))
		if text, failed := strings.CutPrefix(want, "error: "); failed {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: got %q, %v; want %s", manifest, got, err, text)
			}
		} else if err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %s", manifest, got, err, want)
		}
	}
}
