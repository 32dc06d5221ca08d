package cis_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/inspect/cis"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/kubeadm"
)

var addOn = "../../../" + releases.Current("kubernetes").Folder()

// installed has the files that kubeadm makes of the configuration that an install writes. Instead of kubeadm's init, which
// would change this host, it runs those phases that only write files.
func installed(t *testing.T, hardening map[string]string) cis.Host {
	t.Helper()
	h, work, programs := cis.Host{Name: kubeadm.Node, Kubernetes: releases.Current("kubernetes").Version, Rootfs: t.TempDir()}, t.TempDir(), t.TempDir()
	script := "#!/bin/sh\nset -e\ncp \"$3\" " + h.Rootfs + "/kubeadm.yaml\n"
	for _, phase := range []string{"certs all", "kubeconfig all", "control-plane all", "etcd local"} {
		script += kubeadm.Program(t) + " init phase " + phase + " --config /kubeadm.yaml --rootfs " + h.Rootfs + " >/dev/null\n"
	}
	if err := fixture.WriteProgram(filepath.Join(programs, "kubeadm"), script); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	variables := map[string]string{
		"KUBERNETES_VERSION": releases.Current("kubernetes").Version, "KUBERNETES_CLUSTER_NAME": "kubernetes", "KUBERNETES_API_ENDPOINT": "10.10.0.1:6443",
		"KUBERNETES_POD_SUBNET": "10.32.0.0/20", "KUBERNETES_SERVICE_SUBNET": "10.96.0.0/22", "PRIVATE_ADDRESS": kubeadm.Address,
		"KUBERNETES_NODE_IP": kubeadm.Address, "NODE_NAME": kubeadm.Node,
		"SEALIFT_CGROUP_DRIVER": "systemd",
	}
	maps.Copy(variables, hardening)
	k := cluster.Kubeadm{Base: addOn + "/kubeadm", Work: work, Output: t.Output(), Variables: variables}
	if err := k.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(h.Rootfs, "kubeadm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), kubeadm.Program(t), "config", "validate", "--config", filepath.Join(h.Rootfs, "kubeadm.yaml")).CombinedOutput(); err != nil {
		t.Errorf("kubeadm refuses the configuration: %v\n%s", err, out)
	}
	for document := range strings.SplitSeq(string(config), "---\n") {
		if strings.Contains(document, "kind: KubeletConfiguration") {
			// what kubeadm adds to it
			write(t, h, "/var/lib/kubelet/config.yaml", document+strings.SplitN(kubeletConfiguration, "\n", 3)[2])
		}
	}
	for _, name := range []string{"audit.yaml", "admission.yaml"} {
		text, err := os.ReadFile(filepath.Join(addOn, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, h, "/etc/kubernetes/"+name, string(text))
	}
	write(t, h, cluster.EncryptionFile, strings.Replace(encrypted, "%", "{secretbox: {keys: []}}", 1))
	return h
}

// TestInstallPassesDefaultChecks names the failed checks of the control plane, etcd and the kubelet, without files that only a
// host has.
func TestInstallPassesDefaultChecks(t *testing.T) {
	always := []string{"1.2.1", "1.2.9", "1.2.11", "3.1.1"}
	for _, row := range []struct {
		variable, value string
		want            []string
	}{
		{"KUBERNETES_CIS_COMPLIANCE", "", append([]string{"1.2.3", "1.2.5", "1.2.27", "1.2.30", "4.2.13", "4.2.14"}, always...)},
		{"KUBERNETES_CIS_COMPLIANCE", "1", always},
		{"KUBERNETES_HARDENING", "strict", append([]string{"1.2.27"}, slices.DeleteFunc(slices.Clone(always), func(id string) bool { return id == "1.2.9" })...)},
	} {
		want, variables := row.want, map[string]string{row.variable: row.value}
		if row.value == "strict" {
			variables[cluster.EncryptSecrets] = cluster.KeepPlain // the Installer's encryptSecrets: false wins
		}
		var left []string
		for id, one := range look(t, installed(t, variables)) {
			if one.Status == cis.NotMet && !strings.HasPrefix(id, "1.1.") && !strings.HasPrefix(id, "4.1.") && !strings.HasPrefix(id, "5.") {
				left = append(left, id)
			}
		}
		slices.Sort(left)
		if slices.Sort(want); !slices.Equal(left, want) {
			t.Errorf("%v: not met %v, want %v", variables, left, want)
		}
	}
}

// TestAPIServerStartsWithWrittenConfiguration starts a real one with the benchmark's arguments, and reads its log.
func TestAPIServerStartsWithWrittenConfiguration(t *testing.T) {
	h := installed(t, map[string]string{"KUBERNETES_HARDENING": "strict"})
	manifest, err := os.ReadFile(filepath.Join(h.Rootfs, "etc/kubernetes/manifests/kube-apiserver.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(h.Rootfs, "audit.log")
	var arguments []string
	for line := range strings.Lines(string(manifest)) {
		argument := strings.TrimPrefix(strings.TrimSpace(line), "- ")
		for _, name := range []string{"profiling", "audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize", "tls-cipher-suites", "enable-admission-plugins", "service-account-extend-token-expiration"} {
			if strings.HasPrefix(argument, "--"+name+"=") {
				arguments = append(arguments, argument)
			}
		}
	}
	if len(arguments) != 7 {
		t.Fatalf("got %v", arguments)
	}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Arguments: append(arguments,
		"--admission-control-config-file="+filepath.Join(h.Rootfs, cluster.AdmissionFile),
		"--audit-policy-file="+filepath.Join(h.Rootfs, "etc/kubernetes/audit.yaml"), "--audit-log-path="+log)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}()
	client := kubernetes.NewForConfigOrDie(plane.Config())
	if _, err := client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"password": "hunter2"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "foreign"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, ExternalIPs: []string{"192.0.2.1"}}}, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "external IPs is denied") {
		t.Errorf("a Service with a foreign address: %v", err)
	}
	folder := corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}
	for namespace, refused := range map[string]bool{"default": true, "kube-system": false} {
		_, err := client.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "host"},
			Spec: corev1.PodSpec{Volumes: []corev1.Volume{folder}, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
		if (err != nil && strings.Contains(err.Error(), `violates PodSecurity "baseline:latest"`)) != refused || !refused && err != nil {
			t.Errorf("a pod with a folder of the host in namespace %s: %v", namespace, err)
		}
	}
	h.API = client
	strict := look(t, h)
	for id, want := range map[string]cis.Status{"5.2.1": cis.Met, "5.2.11": cis.Met, "5.2.6": cis.NotMet} {
		if strict[id].Status != want {
			t.Errorf("namespaces with the default of the cluster: %+v", strict[id])
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	text := ""
	for !strings.Contains(text, `"resource":"services","namespace":"default","name":"foreign"`) && ctx.Err() == nil {
		read, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		text = string(read)
		time.Sleep(50 * time.Millisecond)
	}
	if !strings.Contains(text, `"verb":"create"`) || !strings.Contains(text, `"resource":"secrets"`) {
		t.Errorf("what was asked for is not in the log:\n%s", text)
	}
	for _, never := range []string{"hunter2", `"resource":"events"`, `"resource":"leases"`, "/readyz"} {
		if strings.Contains(text, never) {
			t.Errorf("the log has %s", never)
		}
	}
}
