package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/encryption"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/kubeadm"
)

// planOfUpgrade plans on a cluster whose only node is this host, with a bundle without Kubernetes: the plan refuses that.
func planOfUpgrade(t *testing.T) {
	h := newPlanHost(t)
	kubeconfig := settled(t)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	h.made(err)
	client, err := kubernetes.NewForConfig(config)
	h.made(err)
	name, err := host.Name()
	h.made(err)
	h.apply(kubeconfig, "nodes")
	_, err = client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	h.made(err)
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	h.made(err)
	for _, n := range nodes.Items {
		n.Status.NodeInfo.KubeletVersion = "v1.35.4"
		_, err = client.CoreV1().Nodes().UpdateStatus(t.Context(), &n, metav1.UpdateOptions{})
		h.made(err)
	}
	_, err = client.CoreV1().ConfigMaps("kube-system").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kubeadm-config"},
		Data: map[string]string{"ClusterConfiguration": "kubernetesVersion: v1.35.4\ncontrolPlaneEndpoint: 127.0.0.1:6444\n"}}, metav1.CreateOptions{})
	h.made(err)
	text, err := os.ReadFile(kubeconfig)
	h.made(err)
	h.write("etc/kubernetes/admin.conf", string(text))
	h.write("etc/kubernetes/manifests/kube-apiserver.yaml", "metadata:\n  annotations:\n    kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: 127.0.0.1:6443\n")
	h.runningBundle()
	h.write("work/node/state/journal.jsonl", `{"time":"2030-01-01T00:00:00Z","step":"kubernetes/init","phase":"install","inputs":"once","outcome":"finished"}`+"\n")
	for _, format := range []string{"text", "json"} {
		out := h.planned("", []string{"upgrade", "--plan", "--bundle", "cluster.tar.gz", "--root", "node", "-o", format}, func() map[string]string { return everything(t, kubeconfig) })
		if !strings.Contains(out, "the bundle has no Kubernetes") || !strings.Contains(out, "app") {
			t.Errorf("the plan says:\n%s", out)
		}
	}
}

// planOfRenewal checks the certificates of a control plane as kubeadm creates it.
func planOfRenewal(t *testing.T) {
	h := newPlanHost(t)
	h.made(os.CopyFS(filepath.Join(h.dir, "etc/kubernetes"), os.DirFS(kubeadm.Folder(t))))
	out := h.planned("", []string{"certs", "renew", "--plan", "--root", "node"})
	if !strings.Contains(out, "apiserver") {
		t.Errorf("the plan says:\n%s", out)
	}
}

// controlPlaneOfPlans is a host with the files of a control plane, and what its cluster has.
func controlPlaneOfPlans(t *testing.T) (h *planHost, cluster func() map[string]string) {
	t.Helper()
	h = newPlanHost(t)
	kubeconfig := settled(t)
	h.made(os.CopyFS(filepath.Join(h.dir, "etc/kubernetes"), os.DirFS(kubeadm.Folder(t))))
	text, err := os.ReadFile(kubeconfig)
	h.made(err)
	h.write("etc/kubernetes/admin.conf", string(text))
	return h, func() map[string]string { return everything(t, kubeconfig) }
}

// planOfRotation plans on a control plane that does not encrypt Secrets, and on one that does.
func planOfRotation(t *testing.T) {
	h, cluster := controlPlaneOfPlans(t)
	plan := []string{"certs", "rotate-encryption", "--plan", "--root", "node"}
	if out := h.planned("", plan, cluster); !strings.Contains(out, "encryption/rewrite") || !strings.Contains(out, "Secrets are not encrypted yet") {
		t.Errorf("the plan says:\n%s", out)
	}
	keys, err := encryption.Config{Keys: []encryption.Key{{Name: "key-7-a", Secret: "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}}}.Encode()
	h.made(err)
	h.write("etc/kubernetes/encryption/config.yaml", string(keys))
	if out := h.planned("", append(plan, "-o", "json"), cluster); !strings.Contains(out, `"key": "key-8-`) || !strings.Contains(out, `"key-7-a"`) || !strings.Contains(out, `"enables": false`) {
		t.Errorf("the plan says:\n%s", out)
	}
}

// planOfRotationOfCAs plans on a control plane whose CAs are not rotated, and on one that another control plane has asked for a
// rotation.
func planOfRotationOfCAs(t *testing.T) {
	h, cluster := controlPlaneOfPlans(t)
	plan := []string{"certs", "rotate-ca", "--plan", "--root", "node"}
	if out := h.planned("", plan, cluster); !strings.Contains(out, "rotate-ca/trust") || strings.Contains(out, "PRIVATE") {
		t.Errorf("the plan says:\n%s", out)
	}
	rotation, err := authority.New(h.dir, []string{authority.Etcd}, time.Now())
	h.made(err)
	h.write("etc/kubernetes/pki/rotation.json", string(rotation.In(authority.Sign).Encode()))
	if out := h.planned("", append(plan, "-o", "json"), cluster); !strings.Contains(out, `"resumes": true`) || !strings.Contains(out, `"etcd"`) || strings.Contains(out, "front-proxy") {
		t.Errorf("the plan says:\n%s", out)
	}
	if code, out := h.sealift("", "certs"); code != 0 || !strings.Contains(out, "rotation of etcd since "+rotation.ID+", stage sign") {
		t.Errorf("certs, exit %d:\n%s", code, out)
	}
	if code, out := h.sealift("", "certs", "rotate-ca", "--finish", "--yes", "--root", "node"); code == 0 || !strings.Contains(out, "run 'sealift certs rotate-ca' first") {
		t.Errorf("the end before the time, exit %d:\n%s", code, out)
	}
}

// planOfRestore plans on a control plane whose etcd lost its data, and on one that also lost its keys.
func planOfRestore(t *testing.T) {
	h := newPlanHost(t)
	folder := kubeadm.Folder(t)
	kubeadm.EtcdManifest(t, folder)
	fixture.Unapproved(t, fips.Snapshots)
	private, public, err := snapshot.GenerateKey()
	h.made(err)
	to, err := snapshot.Recipients(public)
	h.made(err)
	endpoint := kubeadm.Etcd(t, folder)
	h.write("work/key", string(private))
	s := snapshot.Source{Rootfs: strings.TrimSuffix(folder, "/etc/kubernetes"), Node: kubeadm.Node, Etcd: cluster.EtcdAddress{Endpoint: endpoint, PKI: filepath.Join(folder, "pki/etcd")}}
	_, err = s.Save(t.Context(), filepath.Join(h.dir, "work/snapshot"), to...)
	h.made(err)
	h.made(os.CopyFS(filepath.Join(h.dir, "etc/kubernetes"), os.DirFS(folder)))
	plan := []string{"restore", "./snapshot", "--identity", "key", "--plan", "--root", "node"}
	out := h.planned("", plan)
	if !strings.Contains(out, "restore/exchange") || !strings.Contains(out, "its data is gone") || strings.Contains(out, "writes ") {
		t.Errorf("the plan says:\n%s", out)
	}
	h.made(os.Remove(filepath.Join(h.dir, "etc/kubernetes/pki/sa.key")))
	if out := h.planned("", append(plan, "-o", "json")); !strings.Contains(out, `"/etc/kubernetes/pki/sa.pub"`) {
		t.Errorf("with a key lost the plan says:\n%s", out)
	}
	if out := h.planned("", append(plan, "--volumes")); out != "the snapshot has no volumes\n" {
		t.Errorf("of volumes the plan says:\n%s", out)
	}
}

// planOfPrune reads a store with three snapshots of one node.
func planOfPrune(t *testing.T) {
	h := newPlanHost(t)
	for i := range 3 {
		name := snapshot.Name{Cluster: "0a1b2c3d", Node: "first", Time: time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC)}
		h.write("work/kept/snapshots/"+name.String(), "x")
	}
	plan := []string{"snapshot", "prune", "--keep", "1", "--plan", "--store", "kept"}
	if out := h.planned("", plan); strings.Count(out, "would remove ") != 2 {
		t.Errorf("the plan says:\n%s", out)
	}
}

// planOfUndo plans on a control plane that keeps the files that an upgrade replaced, and whose API is unreachable.
func planOfUndo(t *testing.T) {
	h := newPlanHost(t)
	folder := kubeadm.Folder(t)
	kubeadm.EtcdManifest(t, folder)
	endpoint := kubeadm.Etcd(t, folder)
	h.made(os.CopyFS(filepath.Join(h.dir, "etc/kubernetes"), os.DirFS(folder)))
	set, err := undo.Store{Root: filepath.Join(h.dir, "work/node"), Rootfs: h.dir}.Keep("0123456789abcdef", "1.35.4", time.Now())
	h.made(err)
	saved, err := cluster.OpenEtcdSnapshot(t.Context(), cluster.EtcdAddress{Endpoint: endpoint, PKI: filepath.Join(folder, "pki/etcd")})
	h.made(err)
	text, err := io.ReadAll(saved)
	h.made(errors.Join(err, saved.Close()))
	h.made(os.WriteFile(set.Etcd(), text, 0o600))
	plan := []string{"upgrade", "undo", "--plan", "--root", "node"}
	if out := h.planned("", plan); !strings.Contains(out, "back to Kubernetes 1.35.4") || !strings.Contains(out, "the API does not answer") {
		t.Errorf("the plan says:\n%s", out)
	}
	if out := h.planned("", append(plan, "-o", "json")); !strings.Contains(out, `"from": "1.35.4"`) || !strings.Contains(out, `"lost"`) {
		t.Errorf("the plan says:\n%s", out)
	}

	// it resumes the undo that control planes began together
	own, err := host.Name()
	h.made(err)
	sum := sha256.Sum256(text)
	o := undo.JointUndo{ID: "fedcba9876543210", Upgrade: set.Upgrade, Leader: own, Server: kubeadm.Address + ":6445", Snapshot: hex.EncodeToString(sum[:]), Stage: undo.Committed,
		Members: []cluster.EtcdMember{{Name: kubeadm.Node, Peers: []string{"https://" + kubeadm.Address + ":2380"}}, {Name: own, Peers: []string{"https://10.10.0.2:2380"}}}}
	h.made(set.WriteOrder(o))
	if out := h.planned("", plan); !strings.Contains(out, "control planes go back together") || !strings.Contains(out, kubeadm.Node+", "+own) {
		t.Errorf("the plan says:\n%s", out)
	}
	refused := func(o undo.JointUndo, want string) {
		t.Helper()
		h.made(set.WriteOrder(o))
		if code, out := h.sealift("", plan...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, want %q:\n%s", code, want, out)
		}
	}
	other, stranger, damaged := o, o, o
	other.Leader = kubeadm.Node
	refused(other, kubeadm.Node+" leads the undo")
	stranger.Members = []cluster.EtcdMember{{Name: kubeadm.Node, Peers: []string{"https://10.10.0.9:2380"}}, o.Members[1]}
	refused(stranger, "not one of the members that go back")
	damaged.Snapshot = strings.Repeat("0", 64)
	refused(damaged, "is not the snapshot that the control planes go back to")
}

// planOfReaddress plans on a control plane as kubeadm creates it, and requests an address of this machine.
func planOfReaddress(t *testing.T) {
	h := newPlanHost(t)
	folder := kubeadm.Folder(t)
	kubeadm.EtcdManifest(t, folder)
	h.made(os.CopyFS(filepath.Join(h.dir, "etc/kubernetes"), os.DirFS(folder)))
	view, err := network.Read()
	h.made(err)
	address := view.NodeAddress(false).Address
	if !address.IsValid() {
		t.Skip("this machine has no address beside loopback")
	}
	plan := []string{"node", "readdress", address.String(), "--plan", "--root", "node"}
	if out := h.planned("", plan); !strings.Contains(out, "from "+kubeadm.Address+" to "+address.String()) || !strings.Contains(out, "issues /etc/kubernetes/pki/apiserver.crt again") ||
		!strings.Contains(out, "the API does not answer, so the addresses of other nodes are not known") {
		t.Errorf("the plan says:\n%s", out)
	}
	if out := h.planned("", append(plan, "-o", "json")); !strings.Contains(out, `"file": "/etc/kubernetes/manifests/etcd.yaml"`) || !strings.Contains(out, `"id": "readdress/keep"`) {
		t.Errorf("the plan says:\n%s", out)
	}
}

// planOfLoadBalancer plans on a control plane whose cluster has a load balancer, during an unfinished change, and on a cluster without
// one.
func planOfLoadBalancer(t *testing.T) {
	h, objects := controlPlaneOfPlans(t)
	config, err := cluster.Config(filepath.Join(h.dir, "etc/kubernetes/admin.conf"))
	h.made(err)
	server := strings.TrimPrefix(config.Host, "https://")
	client, err := kubernetes.NewForConfig(config)
	h.made(err)
	kubeadmConfig := func(endpoint string) {
		t.Helper()
		maps, own := client.CoreV1().ConfigMaps("kube-system"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kubeadm-config"}, Data: map[string]string{
			"ClusterConfiguration": "kubernetesVersion: v1.36.3\ncontrolPlaneEndpoint: " + endpoint + "\n"}}
		_ = maps.Delete(t.Context(), own.Name, metav1.DeleteOptions{})
		_, err := maps.Create(t.Context(), own, metav1.CreateOptions{})
		h.made(err)
	}
	name, err := host.Name()
	h.made(err)
	_, err = client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	h.made(err)
	text, err := os.ReadFile(filepath.Join(h.dir, "etc/kubernetes/admin.conf"))
	h.made(err)
	h.write("etc/kubernetes/kubelet.conf", strings.ReplaceAll(string(text), server, "127.0.0.9:6443"))
	plan := []string{"node", "load-balancer", server, "--plan", "--root", "node"}
	kubeadmConfig("127.0.0.9:6443")
	if out := h.planned("", plan, objects); !strings.Contains(out, "from 127.0.0.9:6443 to "+server) || !strings.Contains(out, "load-balancer/beside") || !strings.Contains(out, "changes /etc/kubernetes/kubelet.conf on this node") {
		t.Errorf("the plan says:\n%s", out)
	}
	if out := h.planned("", append(plan, "-o", "json"), objects); !strings.Contains(out, `"to": "`+server+`"`) || !strings.Contains(out, `"resumes": false`) {
		t.Errorf("the plan says:\n%s", out)
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if code, out := h.sealift("", append([]string{"node", "load-balancer", "--root", "node"}, args...)...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("%v, exit %d, want %q:\n%s", args, code, want, out)
		}
	}
	refused("is not an address of a load balancer", "10.0.0.300", "--yes")
	refused("no change of the load balancer is under way", "--finish", "--yes")
	refused("name the address of the new load balancer")
	kubeadmConfig("127.0.0.1:6444")
	refused("this cluster has no load balancer", server, "--yes")
}
