package cluster

import (
	"context"
	"net"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// apiServer is the pod of a control plane as kubeadm 1.36 writes it, without what is of no interest here.
const apiServer = `apiVersion: v1
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
    ports: [{containerPort: 6443, name: probe-port, protocol: TCP}]
    livenessProbe: {httpGet: {host: 10.0.0.1, path: /livez, port: probe-port, scheme: HTTPS}}
    resources: {requests: {cpu: 250m}}
  hostNetwork: true
  priorityClassName: system-node-critical
status: {}
`

func TestBridgeIsTheSameServerBesideTheFirst(t *testing.T) {
	text, port, err := bridgeOf([]byte(apiServer))
	if err != nil || port != 6443 {
		t.Fatalf("port %d, %v", port, err)
	}
	var pod corev1.Pod
	if err := yaml.Unmarshal(text, &pod); err != nil {
		t.Fatal(err)
	}
	server := pod.Spec.Containers[0]
	if pod.Name == "kube-apiserver" || pod.Labels["component"] == "kube-apiserver" {
		t.Errorf("kubeadm would take it for the first: %s %v", pod.Name, pod.Labels)
	}
	if len(server.Ports) != 0 || server.LivenessProbe != nil || len(server.Resources.Requests) != 0 {
		t.Errorf("the kubelet would not admit it beside the first: %+v", server)
	}
	if slices.Contains(server.Command, "--audit-log-path=/var/log/apiserver/k8s-audit.log") || !slices.Contains(server.Command, "--audit-log-path=/var/log/apiserver/k8s-audit-bridge.log") {
		t.Errorf("both write one log: %q", server.Command)
	}
	if !pod.Spec.HostNetwork || server.Image != "registry.k8s.io/kube-apiserver:v1.36.3" || !slices.Contains(server.Command, "--secure-port=6443") {
		t.Errorf("it is another server: %+v", pod.Spec)
	}
}

func TestServerThatDoesNotShareItsPortHasNoBridge(t *testing.T) {
	text, _, err := bridgeOf([]byte(`{kind: Pod, spec: {containers: [{name: kube-apiserver, command: [kube-apiserver]}]}}`))
	if text != nil || err != nil {
		t.Errorf("%s, %v", text, err)
	}
	if _, _, err := bridgeOf([]byte("kind: [")); err == nil {
		t.Error("a broken manifest passed")
	}
}

func TestListenersOfASharedPortAreCounted(t *testing.T) {
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if controlErr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }); controlErr != nil {
			return controlErr
		}
		return err
	}}
	at := "127.0.0.1:0"
	for want := 1; want <= 2; want++ {
		l, err := shared.Listen(context.Background(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		at = l.Addr().String()
		if got, err := listeners(l.Addr().(*net.TCPAddr).Port); err != nil || got != want {
			t.Errorf("%d listeners instead of %d: %v", got, want, err)
		}
	}
}
