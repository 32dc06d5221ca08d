package bridge

import (
	"slices"
	"strings"
	"testing"

	_ "github.com/sealift/sealift/internal/testing/usualhost"
)

// manifest is the pod of a control plane as kubeadm 1.36 writes it, without irrelevant parts.
const manifest = `apiVersion: v1
kind: Pod
metadata:
  annotations: {kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: 10.0.0.1:6443}
  labels: {component: kube-apiserver, tier: control-plane}
  name: kube-apiserver
  namespace: kube-system
spec:
  containers:
  - name: kube-apiserver
    image: registry.k8s.io/kube-apiserver:v1.36.3
    command: [kube-apiserver, --advertise-address=10.0.0.1, --secure-port=6443, --permit-port-sharing=true, --audit-log-path=/var/log/apiserver/k8s-audit.log]
    env: [{name: NO_PROXY, value: "10.0.0.0/8,a b"}]
    ports: [{containerPort: 6443, name: probe-port, protocol: TCP}]
    resources: {requests: {cpu: 250m}}
    volumeMounts: [{mountPath: /etc/kubernetes/pki, name: k8s-certs, readOnly: true}]
  hostNetwork: true
  priorityClassName: system-node-critical
  volumes: [{hostPath: {path: /etc/kubernetes/pki, type: DirectoryOrCreate}, name: k8s-certs}]
status: {}
`

func TestSecondServerMatchesFirst(t *testing.T) {
	s, err := secondOf([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	if s.image != "registry.k8s.io/kube-apiserver:v1.36.3" || s.program != "/usr/local/bin/kube-apiserver" || s.address != "10.0.0.1:6443" || s.port != 6443 {
		t.Errorf("it is another server: %+v", s)
	}
	// two servers cannot rotate one file, and one that ends removes its address from the Service kubernetes
	want := []string{"--advertise-address=10.0.0.1", "--secure-port=6443", "--permit-port-sharing=true", "--audit-log-path=/var/log/apiserver/k8s-audit-second.log", "--endpoint-reconciler-type=none"}
	if !slices.Equal(s.flags, want) {
		t.Errorf("flags %q instead of %q", s.flags, want)
	}
	s.flags = append(s.flags, "--oidc-client-id=$HOME")
	args := s.unit("u.service", "/p")
	for _, want := range []string{"--setenv=NO_PROXY=10.0.0.0/8,a b", "--oidc-client-id=$$HOME", "--unit=u.service", "--property=RuntimeMaxSec=3600"} {
		if !slices.Contains(args, want) {
			t.Errorf("%q lacks %q", args, want)
		}
	}
}

func TestMissingHostCapabilityIsNamed(t *testing.T) {
	for _, row := range []struct{ from, to, want string }{
		{"--permit-port-sharing=true, ", "", "does not share its port"},
		{"hostPath: {path: /etc/kubernetes/pki,", "hostPath: {path: /srv/pki,", "/srv/pki of the host at /etc/kubernetes/pki"},
		{"hostPath: {path: /etc/kubernetes/pki, type: DirectoryOrCreate}", "emptyDir: {}", "not a folder of the host"},
		{"readOnly: true}", "subPath: ca}", "/etc/kubernetes/pki/ca of the host"},
		{`value: "10.0.0.0/8,a b"`, "valueFrom: {fieldRef: {fieldPath: status.podIP}}", "NO_PROXY"},
		{"--secure-port=6443", "--etcd-prefix=$(NO_PROXY)", "variables"},
		{"--secure-port=6443", "--secure-port=https", "--secure-port=https"},
		{"hostNetwork: true", "securityContext: {runAsUser: 65532}", "user 65532"},
		{"command: [kube-apiserver,", "command: [/bin/wrapper,", "/bin/wrapper"},
		{"- name: kube-apiserver", "- name: other", "no container"},
		{manifest, "kind: [", "manifest"},
	} {
		text := strings.Replace(manifest, row.from, row.to, 1)
		if text == manifest {
			t.Fatalf("%q is not in the manifest", row.from)
		}
		if _, err := secondOf([]byte(text)); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s for %s: %v", row.to, row.from, err)
		}
	}
}
