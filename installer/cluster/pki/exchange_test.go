package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/privatekey"
	kubeadmtest "github.com/sealift/sealift/internal/testing/kubeadm"
)

// stages are those of a rotation, in order.
func stages() []authority.Stage {
	return []authority.Stage{authority.Trust, authority.Sign, authority.Forget}
}

// copied is a host with the same files.
func (h host) copied(t *testing.T) host {
	t.Helper()
	to := host{files.Host{Rootfs: t.TempDir()}}
	if err := os.CopyFS(to.Rootfs, os.DirFS(h.Rootfs)); err != nil {
		t.Fatal(err)
	}
	return to
}

func newRotation(t *testing.T, h host) authority.State {
	t.Helper()
	s, err := authority.New(h.Rootfs, authority.Names(), time.Now())
	if err == nil {
		s, err = authority.Parse(s.Encode())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (h host) reach(t *testing.T, s authority.State) {
	t.Helper()
	if _, err := h.exchange(s, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// shown are the certificates of a host with the chains that they are presented with, by file.
func (h host) shown(t *testing.T) map[string][]*x509.Certificate {
	t.Helper()
	all := map[string][]*x509.Certificate{}
	for name, e := range h.must(t, time.Now()) {
		if e.Problem != "" {
			t.Errorf("%s: %s", name, e.Problem)
		}
		if e.cert == nil || e.Kind == CA || strings.HasPrefix(e.File, kubeletFolder) {
			continue
		}
		text := h.read(t, e.file)
		if e.Kind == Kubeconfig && e.file == e.File {
			config, err := clientcmd.Load(text)
			if err != nil {
				t.Fatal(err)
			}
			text = config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].ClientCertificateData
		}
		all[e.File] = certificatesOf(t, text)
	}
	return all
}

func certificatesOf(t *testing.T, text []byte) (all []*x509.Certificate) {
	t.Helper()
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == blockCertificate {
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, cert)
		}
	}
	return all
}

// trustFile is the file with the CAs that a certificate is verified with.
func trustFile(name string) string {
	switch {
	case strings.Contains(name, "etcd"):
		return "/etc/kubernetes/pki/etcd/ca.crt"
	case strings.Contains(name, "front-proxy"):
		return "/etc/kubernetes/pki/front-proxy-ca.crt"
	}
	return "/etc/kubernetes/pki/ca.crt"
}

// accepts checks that a host accepts every certificate that another one presents.
func (h host) accepts(t *testing.T, other host, when string) {
	t.Helper()
	verify := func(name, by string, roots, chain []*x509.Certificate) {
		t.Helper()
		o := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
		for _, c := range roots {
			o.Roots.AddCert(c)
		}
		for _, c := range chain[1:] {
			o.Intermediates.AddCert(c)
		}
		if _, err := chain[0].Verify(o); err != nil {
			t.Errorf("%s: %s is not accepted with %s: %v", when, name, by, err)
		}
	}
	shown := other.shown(t)
	if len(shown) != 12 {
		t.Fatalf("%s: the host shows %d certificates", when, len(shown))
	}
	for name, chain := range shown {
		verify(name, trustFile(name), certificatesOf(t, h.read(t, trustFile(name))), chain)
	}
	for _, file := range []string{kubeadm.AdminKubeconfig, kubeadm.KubeletKubeconfig} {
		config, err := clientcmd.LoadFromFile(h.Path(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range config.Clusters {
			verify("apiserver.crt", file, certificatesOf(t, c.CertificateAuthorityData), shown["/etc/kubernetes/pki/apiserver.crt"])
		}
	}
}

// TestNodesTrustEachOtherDuringRotation moves two control planes on in turns. At the end nothing old is left.
func TestNodesTrustEachOtherDuringRotation(t *testing.T) {
	t.Parallel()
	first := controlPlane(t)
	second, before := first.copied(t), first.copied(t)
	s := newRotation(t, first)
	for _, stage := range stages() {
		for n, h := range []host{first, second} {
			h.reach(t, s.In(stage))
			when := string(stage) + " on " + []string{"the first", "both"}[n]
			first.accepts(t, second, when)
			second.accepts(t, first, when)
			if stage != authority.Forget { // clients and pods with the old CA in their memory
				before.accepts(t, h, when+", seen by one from before")
				h.accepts(t, before, when+", shown by one from before")
			}
		}
	}
	for _, p := range s.Parts {
		if got := string(first.read(t, p.Trusted())); got != p.New {
			t.Errorf("%s has\n%s", p.Trusted(), got)
		}
		if got := string(first.read(t, p.Private())); got != p.Key {
			t.Errorf("%s is not the new key", p.Private())
		}
	}
	for name, chain := range first.shown(t) {
		if len(chain) != 1 || before.shown(t)[name][0].CheckSignatureFrom(certificatesOf(t, before.read(t, trustFile(name)))[0]) != nil {
			t.Errorf("%s has %d certificates", name, len(chain))
		}
	}
}

// contents are the files of a host.
func (h host) contents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(h.Path(kubeadm.Folder), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[h.Name(path)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestInterruptedExchangeIsFinished leaves out, or does alone, the change of each file. The exchange that follows mends that, and
// a further one changes nothing.
func TestInterruptedExchangeIsFinished(t *testing.T) {
	t.Parallel()
	whole := controlPlane(t)
	s := newRotation(t, whole)
	for _, stage := range stages() {
		before := whole.copied(t)
		was := before.contents(t)
		whole.reach(t, s.In(stage))
		is := whole.contents(t)
		changed := 0
		for name, text := range is {
			if was[name] == text {
				continue
			}
			changed++
			for _, alone := range []bool{false, true} {
				cut, content, there := whole.copied(t), was[name], was[name] != ""
				if alone {
					cut, content, there = before.copied(t), text, true
				}
				err := os.Remove(cut.Path(name))
				if alone && was[name] == "" {
					err = nil
				}
				if err == nil && there {
					err = os.WriteFile(cut.Path(name), []byte(content), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				cut.reach(t, s.In(stage))
				when := string(stage) + ", " + name + " was cut off"
				cut.accepts(t, whole, when)
				whole.accepts(t, cut, when)
				after := cut.contents(t)
				cut.reach(t, s.In(stage))
				for name, text := range cut.contents(t) {
					if after[name] != text {
						t.Errorf("%s: another exchange changes %s", when, name)
					}
				}
			}
		}
		if changed < 5 {
			t.Errorf("%s changed %d files", stage, changed)
		}
	}
}

// TestEtcdAndClientsConnectAtDifferentStages lets a real etcd serve at one stage, and a client of another stage ask it.
func TestEtcdAndClientsConnectAtDifferentStages(t *testing.T) {
	t.Parallel()
	before := controlPlane(t)
	s := newRotation(t, before)
	trust, forget := before.copied(t), before.copied(t)
	trust.reach(t, s)
	forget.reach(t, s)
	forget.reach(t, s.In(authority.Forget))
	for _, row := range []struct {
		name           string
		server, client host
		ok             bool
	}{
		{"a server that rotates, a client from before", trust, before, true},
		{"a server from before, a client that rotates", before, trust, true},
		{"a server that has forgotten, a client that rotates", forget, trust, true},
		{"a server that has forgotten, a client from before", forget, before, false},
	} {
		endpoint := kubeadmtest.Etcd(t, row.server.Path(kubeadm.Folder))
		o, err := cluster.OpenEtcdSnapshot(t.Context(), cluster.EtcdAddress{Endpoint: endpoint, PKI: row.client.Path(kubeadm.Folder + "/pki/etcd")})
		if err == nil {
			_, err = io.Copy(io.Discard, o)
			_ = o.Close()
		}
		if (err == nil) != row.ok {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// TestControllerManagerSignsWithOneCA while ca.crt has two.
func TestControllerManagerSignsWithOneCA(t *testing.T) {
	t.Parallel()
	h := controlPlane(t)
	s := newRotation(t, h)
	for _, stage := range stages()[:2] {
		h.reach(t, s.In(stage))
		signer := certificatesOf(t, h.read(t, authority.SignerFile))
		key, err := privatekey.Parse(h.read(t, "/etc/kubernetes/pki/ca.key"))
		if err != nil || len(signer) != 1 || len(certificatesOf(t, h.read(t, "/etc/kubernetes/pki/ca.crt"))) != 2 {
			t.Fatalf("%s: %d certificates sign, %v", stage, len(signer), err)
		}
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil || !bytes.Equal(der, signer[0].RawSubjectPublicKeyInfo) {
			t.Errorf("%s: the certificate that signs does not fit ca.key: %v", stage, err)
		}
	}
	const pod = "kube-controller-manager"
	if err := h.restart(pod, "1", setSigner(authority.SignerFile)); err != nil {
		t.Fatal(err)
	}
	manifest := string(h.read(t, manifestOf(pod)))
	if !strings.Contains(manifest, "--"+signerFlag+"="+authority.SignerFile+"\n") || strings.Contains(manifest, "--"+signerFlag+"=/etc/kubernetes/pki/ca.crt") {
		t.Errorf("the manifest has\n%s", manifest)
	}
	var broken map[string]any
	if err := yaml.Unmarshal([]byte("spec: {containers: [{command: [kube-scheduler]}]}"), &broken); err != nil {
		t.Fatal(err)
	}
	if err := setSigner("x")(broken); err == nil {
		t.Error("a manifest without the argument is taken")
	}
}
