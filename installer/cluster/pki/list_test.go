package pki

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	kubeadmtest "github.com/sealift/sealift/internal/testing/kubeadm"
)

// controlPlane has the files of a control plane in a folder of the test.
func controlPlane(t *testing.T) host {
	t.Helper()
	return host{files.Host{Rootfs: strings.TrimSuffix(kubeadmtest.Copy(t), kubeadm.Folder)}}
}

func (h host) must(t *testing.T, now time.Time) map[string]Entry {
	t.Helper()
	entries, err := h.list(now)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Entry{}
	for _, e := range entries {
		all[strings.TrimPrefix(e.File, kubeadm.Folder+"/")] = e
	}
	return all
}

func TestKubeadmCertificatesAreListed(t *testing.T) {
	h, now := controlPlane(t), time.Now()
	all := h.must(t, now)
	for file, want := range map[string]struct {
		kind    Kind
		days    int
		subject string
		users   string
	}{
		"pki/ca.crt":                       {CA, 3649, "CN=kubernetes", "kube-apiserver kube-controller-manager kubelet"},
		"pki/front-proxy-ca.crt":           {CA, 3649, "CN=front-proxy-ca", "kube-apiserver kube-controller-manager"},
		"pki/etcd/ca.crt":                  {CA, 3649, "CN=etcd-ca", "kube-apiserver"},
		"pki/apiserver.crt":                {Leaf, 364, "CN=kube-apiserver", "kube-apiserver"},
		"pki/apiserver-kubelet-client.crt": {Leaf, 364, "CN=kube-apiserver-kubelet-client", "kube-apiserver"},
		"pki/apiserver-etcd-client.crt":    {Leaf, 364, "CN=kube-apiserver-etcd-client", "kube-apiserver"},
		"pki/front-proxy-client.crt":       {Leaf, 364, "CN=front-proxy-client", "kube-apiserver"},
		"pki/etcd/server.crt":              {Leaf, 364, "CN=host-1", ""},
		"pki/etcd/peer.crt":                {Leaf, 364, "CN=host-1", ""},
		"pki/etcd/healthcheck-client.crt":  {Leaf, 364, "CN=kube-etcd-healthcheck-client", "etcdctl sealift"},
		"admin.conf":                       {Kubeconfig, 364, "CN=kubernetes-admin,O=kubeadm:cluster-admins", "administrators sealift"},
		"super-admin.conf":                 {Kubeconfig, 364, "CN=kubernetes-super-admin,O=system:masters", "administrators"},
		"controller-manager.conf":          {Kubeconfig, 364, "CN=system:kube-controller-manager", "kube-controller-manager"},
		"scheduler.conf":                   {Kubeconfig, 364, "CN=system:kube-scheduler", "kube-scheduler"},
		"kubelet.conf":                     {Kubeconfig, 364, "CN=system:node:host-1,O=system:nodes", "kubelet"},
		"pki/sa.pub":                       {KeyPair, 0, "", "kube-apiserver kube-controller-manager"},
	} {
		got, there := all[file]
		if !there {
			t.Errorf("%s is not listed", file)
			continue
		}
		delete(all, file)
		if got.Kind != want.kind || got.Subject != want.subject || strings.Join(got.UsedBy, " ") != want.users || got.Problem != "" {
			t.Errorf("%s: got %+v, want %+v", file, got, want)
		}
		if want.kind == KeyPair {
			if got.End != nil || got.Days != nil {
				t.Errorf("%s has an end: %+v", file, got)
			}
		} else if *got.Days != want.days || got.End.Before(now) || got.Issuer == "" {
			t.Errorf("%s: %d days left, want %d", file, *got.Days, want.days)
		}
	}
	for file := range all {
		t.Errorf("%s is listed, too", file)
	}
}

func TestCertificatesAreDueThreeMonthsBeforeExpiry(t *testing.T) {
	h, now := controlPlane(t), time.Now()
	due := func(days int) (files []string) {
		at := now.AddDate(0, 0, days)
		for name, e := range h.must(t, at) {
			if e.Due(at) {
				files = append(files, name)
			}
			if e.Ended(at) != (e.Days != nil && *e.Days < 0) {
				t.Errorf("%s in %d days: %+v", name, days, e)
			}
		}
		slices.Sort(files)
		return files
	}
	if files := due(270); len(files) > 0 {
		t.Errorf("95 days before: %v", files)
	}
	if files := due(280); len(files) != 12 || slices.Contains(files, "pki/ca.crt") {
		t.Errorf("85 days before: %v", files)
	}
	if files := due(400); len(files) != 12 {
		t.Errorf("after the end: %v", files)
	}
	rotated := Entry{RenewedBy: Kubelet, End: &now}
	if rotated.Due(now.AddDate(0, 0, -40)) || !rotated.Due(now.AddDate(0, 0, -20)) {
		t.Error("what the kubelet renews is warned of in the wrong time")
	}
}

func TestDamagedFilesAreListedWithReason(t *testing.T) {
	h := controlPlane(t)
	write := func(name, text string) {
		if err := os.WriteFile(h.Path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key, err := os.ReadFile(h.Path("/etc/kubernetes/pki/etcd/peer.key"))
	if err != nil {
		t.Fatal(err)
	}
	write("/etc/kubernetes/pki/etcd/server.key", string(key))
	write("/etc/kubernetes/pki/apiserver.crt", "nothing")
	write("/etc/kubernetes/pki/extra.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	write("/etc/kubernetes/admin.conf", "{")
	write("/etc/kubernetes/empty.conf", "")
	all := h.must(t, time.Now())
	for _, file := range []string{"pki/etcd/server.crt", "pki/apiserver.crt", "pki/extra.crt", "admin.conf", "empty.conf"} {
		if all[file].Problem == "" {
			t.Errorf("nothing is wrong with %s: %+v", file, all[file])
		}
	}
	if p := all["pki/etcd/peer.crt"].Problem; p != "" {
		t.Error(p)
	}
}

func TestNodeWithoutClusterHasNoCertificates(t *testing.T) {
	entries, err := host{files.Host{Rootfs: t.TempDir()}}.list(time.Now())
	if err != nil || entries == nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestKubeconfigMayReferToCertificateFile(t *testing.T) {
	h := controlPlane(t)
	current := kubeletFolder + "/kubelet-client-current.pem"
	if err := os.MkdirAll(h.Path(kubeletFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	var pem []byte
	for _, name := range []string{"apiserver-kubelet-client.crt", "apiserver-kubelet-client.key"} {
		text, err := os.ReadFile(h.Path(filepath.Join(kubeadm.Folder, "pki", name)))
		if err != nil {
			t.Fatal(err)
		}
		pem = append(pem, text...)
	}
	if err := os.WriteFile(h.Path(current), pem, 0o600); err != nil {
		t.Fatal(err)
	}
	config := "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {client-certificate: " + current + ", client-key: " + current + "}}]\n"
	if err := os.WriteFile(h.Path("/etc/kubernetes/kubelet.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if e := h.must(t, time.Now())["kubelet.conf"]; e.Problem != "" || e.Days == nil || *e.Days != 364 || e.RenewedBy != Kubelet {
		t.Errorf("%+v", e)
	}
}
