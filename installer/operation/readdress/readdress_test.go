package readdress

import (
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/undo"
	kubeadmtest "github.com/sealift/sealift/internal/testing/kubeadm"
)

var change = Change{From: netip.MustParseAddr(kubeadmtest.Address), To: netip.MustParseAddr("10.20.0.7"), Link: "eth1"}

func TestOnlyWholeAddressesAreReplaced(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.0.0.1": "10.0.0.22", "https://10.0.0.1:6443": "https://10.0.0.22:6443", "--node-ip=10.0.0.1,fd00::1": "--node-ip=10.0.0.22,fd00::1",
		"a=https://10.0.0.1:2380,b=https://10.0.0.11:2380": "a=https://10.0.0.22:2380,b=https://10.0.0.11:2380",
		"10.0.0.1\thost-1": "10.0.0.22\thost-1", `"10.0.0.1"`: `"10.0.0.22"`, "10.0.0.1.": "10.0.0.22.", "https://10.0.0.1/x": "https://10.0.0.22/x",
		"10.0.0.1 10.0.0.1": "10.0.0.22 10.0.0.22",
		// others, networks, and names
		"10.0.0.10": "", "110.0.0.1": "", "1.10.0.0.1": "", "10.0.0.1/24": "", "10.0.0.1.nip.io": "", "ip-10.0.0.1": "", "10.0.0.1-a": "", "": "",
	} {
		got, places := replace(text, netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.22"))
		if want == "" {
			want = text
		}
		if got != want || (places > 0) != (want != text) {
			t.Errorf("%q becomes %q (%d places), want %q", text, got, places, want)
		}
	}
	six := "https://[fd00::1]:6443 fd00::11 fd00::1:2 2001:fd00::1 fd00::1"
	if got, _ := replace(six, netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::9")); got != "https://[fd00::9]:6443 fd00::11 fd00::1:2 2001:fd00::1 fd00::9" {
		t.Errorf("IPv6: %q", got)
	}
}

func FuzzReplace(f *testing.F) {
	f.Add("--advertise-address=10.0.0.1\n")
	f.Fuzz(func(t *testing.T, text string) {
		from, to := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.22")
		out, places := replace(text, from, to)
		if len(out) != len(text)+places {
			t.Errorf("%q becomes %q with %d places", text, out, places)
		}
		if again, places := replace(out, from, to); again != out || places != 0 {
			t.Errorf("%q: the second time %q", text, again)
		}
	})
}

// newHost is a control plane with the files of a real kubeadm, and with Sealift's.
func newHost(t *testing.T) host {
	t.Helper()
	folder := kubeadmtest.Folder(t)
	kubeadmtest.EtcdManifest(t, folder)
	h := host{files.Host{Rootfs: strings.TrimSuffix(folder, "/etc/kubernetes")}, "/var/lib/sealift"}
	for name, text := range map[string]string{
		kubeadm.KubeletFlags:                                `KUBELET_KUBEADM_ARGS="--node-ip=10.10.0.1 --pod-infra-container-image=registry.k8s.io/pause:3.10.2"` + "\n",
		pki.KubeletServing()[0]:                             "signed by the kubelet itself",
		"/var/lib/kubelet/pki/kubelet.key":                  "its key",
		"/etc/hosts":                                        "127.0.0.1 localhost\n10.10.0.1 host-1\n10.10.0.11 host-11\n",
		node.APIServersFile(h.root):                         "10.10.0.1:6443\n10.10.0.2:6443\n",
		node.InstallerFile(h.root):                          "spec:\n  kurl: {privateAddress: 10.10.0.1}\n",
		"/etc/systemd/system/sealift-service-route.service": "ExecStart=/sbin/ip route replace 10.96.0.0/12 dev eth0\n",
		"/etc/containerd/conf.d/installer.toml":             "server = 'http://10.10.0.10:5000'\n",
	} {
		path := h.Path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h host) text(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(h.Path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// all is every file of the host.
func (h host) all(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range h.kept() {
		names, err := filepath.Glob(h.Path(pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			all[name] = h.text(t, strings.TrimPrefix(name, h.Rootfs))
		}
	}
	return all
}

// addresses are those that a certificate is for.
func (h host) addresses(t *testing.T, name string) (found []string) {
	t.Helper()
	block, _ := pem.Decode([]byte(h.text(t, name)))
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, ip := range c.IPAddresses {
		found = append(found, ip.String())
	}
	return found
}

const (
	apiCertificate  = "/etc/kubernetes/pki/apiserver.crt"
	peerCertificate = "/etc/kubernetes/pki/etcd/peer.crt"
)

// TestControlPlaneFilesGetNewAddress uses kubeadm's files. It changes them and puts them back. The first
// run is cut, and a second one ends the change.
func TestControlPlaneFilesGetNewAddress(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s, err := h.read()
	if err != nil {
		t.Fatal(err)
	}
	if !s.controlPlane || !s.etcd || s.address != change.From || !slices.Equal(s.servers, []string{"10.10.0.1", "10.10.0.2"}) || len(s.networks) != 2 {
		t.Errorf("the state is %+v", s)
	}
	edits, err := h.edits(change)
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]int{}
	for _, e := range edits {
		places[e.File] = e.Places
	}
	want := map[string]int{
		"/etc/kubernetes/manifests/etcd.yaml": 6, "/etc/kubernetes/manifests/kube-apiserver.yaml": 5,
		"/etc/kubernetes/controller-manager.conf": 1, "/etc/kubernetes/scheduler.conf": 1, "/etc/kubernetes/admin.conf": 1, "/etc/kubernetes/super-admin.conf": 1,
		"/etc/kubernetes/kubelet.conf": 1,
		kubeadm.KubeletFlags:           1, "/etc/hosts": 1, "/var/lib/sealift/state/api-servers": 1, "/var/lib/sealift/state/installer.yaml": 1,
		"/etc/systemd/system/sealift-service-route.service": 1,
	}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("the files (want, got): %s", diff)
	}
	before := h.all(t)
	copies := undo.Store{Root: h.Path(h.root), Rootfs: h.Rootfs, Folder: h.Path(node.ReaddressDir(h.root)), Files: h.kept()}
	set, err := copies.Keep("20261122T103000.000Z", change.From.String(), time.Now())
	if err != nil {
		t.Fatal(err)
	}

	if err := h.write(edits[:3]); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for range 2 {
		issued, err := pki.NewReaddressing(h.Rootfs, change.From, change.To, false, now)
		if err != nil {
			t.Fatal(err)
		}
		if err := issued.Issue(now); err != nil {
			t.Fatal(err)
		}
		rest, err := h.edits(change)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.write(rest); err != nil {
			t.Fatal(err)
		}
	}
	if s, err = h.read(); err != nil || s.address != change.To {
		t.Errorf("the node says %v, %v", s.address, err)
	}
	for name, text := range h.all(t) {
		if left, _ := replace(text, change.From, change.To); left != text {
			t.Errorf("%s still names the old address:\n%s", name, text)
		}
	}
	if text := h.text(t, "/etc/systemd/system/"+routeUnit); !strings.HasSuffix(text, " dev eth1\n") {
		t.Error(text)
	}
	for _, name := range []string{apiCertificate, peerCertificate, "/etc/kubernetes/pki/etcd/server.crt"} {
		if got := h.addresses(t, name); !slices.Contains(got, change.To.String()) || slices.Contains(got, change.From.String()) {
			t.Errorf("%s is for %v", name, got)
		}
	}
	entries, err := pki.NewReaddressing(h.Rootfs, change.From, change.To, false, now)
	if err != nil || len(entries.Files()) > 0 {
		t.Errorf("left are %v, %v", entries.Files(), err)
	}

	if _, err := copies.PutBack(set, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, h.all(t)); diff != "" {
		t.Errorf("what was put back differs: %s", diff)
	}
	t.Run("while the host has both", func(t *testing.T) { certificatesKeepAnAddress(t, h) })
}

// certificatesKeepAnAddress that the host still has: etcd looks for the address of a connection in the certificate of the other side.
func certificatesKeepAnAddress(t *testing.T, h host) {
	for round, both := range []bool{true, true, false} {
		issued, err := pki.NewReaddressing(h.Rootfs, change.From, change.To, both, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if want := []int{3, 0, 3}[round]; len(issued.Files()) != want {
			t.Errorf("round %d issues %v", round, issued.Files())
		}
		if err := issued.Issue(time.Now()); err != nil {
			t.Fatal(err)
		}
		got := h.addresses(t, peerCertificate)
		if slices.Contains(got, change.From.String()) != both || !slices.Contains(got, change.To.String()) || !slices.Contains(got, "127.0.0.1") {
			t.Errorf("round %d: the certificate is for %v", round, got)
		}
	}
	if err := os.Remove(h.Path("/etc/kubernetes/pki/etcd/ca.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.NewReaddressing(h.Rootfs, change.To, change.From, false, time.Now()); err == nil || !strings.Contains(err.Error(), "ca.key") {
		t.Errorf("without the key of the CA: %v", err)
	}
}

func TestWorkerReportsItsAddress(t *testing.T) {
	t.Parallel()
	h := host{files.Host{Rootfs: t.TempDir()}, "/var/lib/sealift"}
	if _, err := h.read(); err == nil || !strings.Contains(err.Error(), "run the command on a node") {
		t.Errorf("a bare host: %v", err)
	}
	path := h.Path(kubeadm.KubeletFlags)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]string{"--node-ip=10.10.0.5": "10.10.0.5", "--v=2 --node-ip=fd00::5 --x": "fd00::5", "--v=2": "",
		"--node-ip=10.10.0.5,fd00::5 --x": "10.10.0.5,fd00::5", "--node-ip=fd00::5,10.10.0.5": "fd00::5,10.10.0.5"} {
		if err := os.WriteFile(path, []byte(`KUBELET_KUBEADM_ARGS="`+flags+"\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := h.read()
		got := s.address.String()
		if s.second.IsValid() {
			got += "," + s.second.String()
		}
		if want == "" && err == nil || want != "" && (err != nil || got != want || s.controlPlane) {
			t.Errorf("%q: %+v, %v", flags, s, err)
		}
	}
}

func TestInvalidAddressesAreRefused(t *testing.T) {
	t.Parallel()
	at := netip.MustParseAddr
	networks, err := networksOf("10.32.0.0/20,fd00:32::/64", "10.96.0.0/12")
	if err != nil || len(networks) != 3 {
		t.Fatal(networks, err)
	}
	f := facts{
		own:   map[netip.Addr]string{at("10.10.0.1"): "eth0", at("10.20.0.7"): "eth1", at("127.0.0.1"): "lo", at("172.17.0.1"): "docker0", at("fd00::7"): "eth1"},
		nodes: map[netip.Addr]string{at("10.10.0.2"): "host-2"}, networks: networks, virtual: func(link string) bool { return link == "docker0" },
	}
	for text, want := range map[string]string{
		"10.20.0.7": "", "::ffff:10.20.0.7": "",
		"host-7": "not an IP address", "10.20.0": "not an IP address", "10.20.0.7/24": "not an IP address", "": "not an IP address",
		"127.0.0.1": "loopback", "::1": "loopback", "0.0.0.0": "not an address that a node can have", "224.0.0.1": "not an address that a node", "255.255.255.255": "not an address that a node",
		"169.254.1.1": "not an address that a node", "fd00::7": "different families",
		"10.10.0.2": "address of node host-2", "10.32.0.9": "is in 10.32.0.0/20", "10.100.0.1": "is in 10.96.0.0/12",
		"10.20.0.8": "no interface of this host has 10.20.0.8 (it has 10.10.0.1, 10.20.0.7, fd00::7)", "172.17.0.1": "docker0",
	} {
		to, err := Parse(text)
		link := ""
		if err == nil {
			link, err = f.check(at("10.10.0.1"), to)
		}
		if want == "" && (err != nil || link != "eth1") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %q, %v; want %q", text, link, err, want)
		}
	}
	f.second = at("fd00::1")
	if _, err := f.check(at("10.10.0.1"), at("fd00::7")); err == nil || !strings.Contains(err.Error(), "fd00::7 is of the family of fd00::1, the second address of this node") {
		t.Errorf("an address for the second one: %v", err)
	}
	for second, want := range map[string]string{"fd00::7": "", "fd00::1": "no interface of this host has fd00::1, the second address of this node"} {
		f.second = at(second)
		if err := f.checkSecond(); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("the second address %s: %v", second, err)
		}
	}
	if err := (facts{}).checkSecond(); err != nil {
		t.Errorf("one family: %v", err)
	}
	if _, err := networksOf("10.32.0.0/20", "x"); err == nil {
		t.Error("a network that is none")
	}
}

func TestInterruptedChangeIsDetected(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 10, 30, 0, 0, time.UTC)
	inputs := newInputs(change, now)
	rec := func(step, inputs string, outcome lifecycle.Outcome) lifecycle.Record {
		return lifecycle.Record{Operation: lifecycle.Readdressing, Step: step, Inputs: inputs, Outcome: outcome}
	}
	kept := rec(keepStep, inputs, lifecycle.Finished)
	stopped := rec("readdress/stop", inputs, lifecycle.Started)
	back := rec("readdress/back-files", inputs+backSuffix, lifecycle.Started)
	for why, row := range map[string]struct {
		records     []lifecycle.Record
		begun, back bool
	}{
		"none":          {},
		"nothing kept":  {records: []lifecycle.Record{rec(keepStep, inputs, lifecycle.Started)}},
		"kept":          {records: []lifecycle.Record{kept}, begun: true},
		"stopped":       {records: []lifecycle.Record{kept, stopped}, begun: true},
		"finished":      {records: []lifecycle.Record{kept, stopped, rec(LastStep, inputs, lifecycle.Finished)}},
		"last failed":   {records: []lifecycle.Record{kept, rec(LastStep, inputs, lifecycle.Failed)}, begun: true},
		"going back":    {records: []lifecycle.Record{kept, stopped, back}, begun: true, back: true},
		"taken back":    {records: []lifecycle.Record{kept, back, rec(backStep, inputs+backSuffix, lifecycle.Finished)}},
		"another began": {records: []lifecycle.Record{kept, back, rec(keepStep, newInputs(change, now.Add(time.Hour)), lifecycle.Finished)}, begun: true},
		"of others":     {records: []lifecycle.Record{{Operation: lifecycle.Renewing, Step: keepStep, Inputs: inputs, Outcome: lifecycle.Finished}}},
		"of nobody":     {records: []lifecycle.Record{rec(keepStep, "a b c", lifecycle.Finished), rec(keepStep, "", lifecycle.Finished)}},
	} {
		got := interruption(row.records)
		if got.begun != row.begun || got.back != row.back || row.begun && (got.From != change.From || got.To != change.To) {
			t.Errorf("%s: %+v", why, got)
		}
		if to := Interrupted(row.records); (to == change.To.String()) != row.begun {
			t.Errorf("%s: %q", why, to)
		}
	}
	if got := interruption([]lifecycle.Record{kept}).generation(); got != "20261122T103000.000Z" {
		t.Error(got)
	}
}
