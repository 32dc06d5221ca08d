package readdress

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/internal/scratch"
	"github.com/sealift/sealift/internal/testing/isolation"
	"github.com/sealift/sealift/internal/testing/kubeadm"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/daemon"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// ownHost is a host with a separate network, whose static pods are run as programs.
type ownHost struct {
	host
	t   *testing.T
	dir *scratch.Dir
}

// run runs the static pod of a manifest as the manifest says, with the paths of this host.
func (o ownHost) run(pod, program string) *daemon.Daemon {
	o.t.Helper()
	var manifest corev1.Pod
	if err := yaml.Unmarshal([]byte(o.text(o.t, "/etc/kubernetes/manifests/"+pod+".yaml")), &manifest); err != nil {
		o.t.Fatal(err)
	}
	command := manifest.Spec.Containers[0].Command[1:]
	for i, arg := range command {
		arg = strings.ReplaceAll(arg, "/etc/kubernetes", o.Path("/etc/kubernetes"))
		command[i] = strings.ReplaceAll(arg, "/var/lib/etcd", o.dir.File("etcd"))
	}
	network := fmt.Sprintf("--net=/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
	d, err := daemon.Start(daemon.Command{Path: "nsenter", Dir: o.dir.Path(), Log: o.dir.File(pod + ".log"), Args: append([]string{network, "--", program}, command...)})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(d.Stop)
	return d
}

// administrator writes the credentials of super-admin.conf for curl.
func (o ownHost) administrator() (args []string) {
	o.t.Helper()
	config, err := clientcmd.LoadFromFile(o.Path("/etc/kubernetes/super-admin.conf"))
	if err != nil {
		o.t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		for flag, text := range map[string][]byte{"cert": user.ClientCertificateData, "key": user.ClientKeyData} {
			if err := os.WriteFile(o.dir.File(flag), text, 0o600); err != nil {
				o.t.Fatal(err)
			}
			args = append(args, "--"+flag, o.dir.File(flag))
		}
	}
	return append(args, "--cacert", o.Path("/etc/kubernetes/pki/ca.crt"), "--silent", "--show-error", "--fail", "--max-time", "5")
}

// ask asks the API server at an address, whose certificate has to be one for it.
func (o ownHost) ask(as []string, address, path string, more ...string) (string, error) {
	args := append(append([]string{}, as...), more...)
	out, err := exec.Command("curl", append(args, "https://"+joined(address)+path)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s at %s: %w: %s", path, address, err, out)
	}
	return string(out), nil
}

// TestControlPlaneWorksAtItsNewAddress runs the etcd and the API server of kubeadm's manifests in a separate network, removes the
// address from the host, and checks that they work at the new one with their data.
func TestControlPlaneWorksAtItsNewAddress(t *testing.T) {
	isolation.Network(t) // not parallel: only this thread has the network
	for _, args := range [][]string{
		{"link", "set", "lo", "up"}, {"link", "add", "eth0", "type", "veth", "peer", "name", "cable"}, {"link", "set", "eth0", "up"}, {"link", "set", "cable", "up"},
		{"address", "add", kubeadm.Address + "/24", "dev", "eth0"}, {"route", "add", "default", "dev", "eth0"},
	} {
		isolation.Run(t, "", "ip", args...)
	}
	dir, err := scratch.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dir.Remove(); err != nil {
			t.Error(err)
		}
	})
	o := ownHost{newHost(t), t, dir}
	etcd, server := program(t, "etcd"), program(t, "kube-apiserver")
	as := o.administrator()
	start := func(address string) (stop func()) {
		t.Helper()
		member, api := o.run("etcd", etcd), o.run("kube-apiserver", server)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := api.WaitReady(ctx, func(context.Context) error {
			_, err := o.ask(as, address, "/readyz")
			return err
		}); err != nil {
			t.Fatalf("%v\n%s", err, member.LogTail())
		}
		return func() { api.Stop(); member.Stop() }
	}
	const objects = "/api/v1/namespaces/default/configmaps"
	stop := start(kubeadm.Address)
	if _, err := o.ask(as, kubeadm.Address, objects, "--json", `{"metadata": {"name": "kept"}}`); err != nil {
		t.Fatal(err)
	}
	stop()

	isolation.Run(t, "", "ip", "address", "replace", change.To.String()+"/24", "dev", "eth0")
	isolation.Run(t, "", "ip", "address", "del", kubeadm.Address+"/24", "dev", "eth0")
	select {
	case <-o.run("etcd", etcd).Done():
	case <-time.After(time.Minute):
		t.Error("etcd runs although the host has lost the address: this test shows nothing")
	}
	now := time.Now()
	issued, err := pki.NewReaddressing(o.Rootfs, change.From, change.To, false, now)
	if err != nil {
		t.Fatal(err)
	}
	edits, err := o.edits(change)
	if err != nil {
		t.Fatal(err)
	}
	if err := issued.Issue(now); err != nil {
		t.Fatal(err)
	}
	if err := o.write(edits); err != nil {
		t.Fatal(err)
	}
	stop = start(change.To.String())
	defer stop()
	if out, err := o.ask(as, change.To.String(), objects+"/kept"); err != nil || !strings.Contains(out, `"kept"`) {
		t.Errorf("the object is gone: %s, %v", out, err)
	}
	out, err := exec.Command("curl", "--silent", "--show-error", "--fail", "--max-time", "5", "--cacert", o.Path("/etc/kubernetes/pki/etcd/ca.crt"),
		"--cert", o.Path("/etc/kubernetes/pki/etcd/healthcheck-client.crt"), "--key", o.Path("/etc/kubernetes/pki/etcd/healthcheck-client.key"),
		"https://"+change.To.String()+":2379/version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "etcdserver") {
		t.Errorf("etcd at the new address: %s, %v", out, err)
	}
}

// program is one of the lab's.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := lab.Workshop(t).File(t.Context(), upstream.Program(name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
