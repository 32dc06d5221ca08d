// Package pki knows the certificates of a node: when they end, and who uses them. On a control plane it renews those that
// kubeadm made.
package pki

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
)

// Kind is the type of a file.
type Kind string

// The kinds of files.
const (
	CA         Kind = "ca"
	Leaf       Kind = "certificate"
	Kubeconfig Kind = "kubeconfig"
	KeyPair    Kind = "key pair" // without a certificate, and so without an end
)

// The folders with certificates, and the kubelet's files in theirs.
const (
	kubeletFolder  = "/var/lib/kubelet/pki"
	kubeletServing = kubeletFolder + "/kubelet.crt"
	kubeletRotated = kubeadm.KubeletServing
	manifestFolder = kubeadm.Manifests
)

// KubeletServing names the certificate with which the kubelet serves, and its key. If they are missing, the kubelet makes them when it
// starts.
func KubeletServing() []string { return []string{kubeletServing, keyOf(kubeletServing)} }

// Entry is a file with a certificate, or a pair of keys.
type Entry struct {
	File    string     `json:"file"`
	Kind    Kind       `json:"kind"`
	Subject string     `json:"subject,omitempty"`
	Issuer  string     `json:"issuer,omitempty"`
	End     *time.Time `json:"end,omitempty"`
	Days    *int       `json:"daysLeft,omitempty"` // in days; negative when the certificate has expired
	UsedBy  []string   `json:"usedBy"`
	// Begin is set only while the clock of the host is before it: the clock is behind, or was ahead when the certificate was made.
	Begin *time.Time `json:"begin,omitempty"`
	// RenewedBy names who renews the certificate automatically: Sealift or Kubelet, or "" for nobody.
	RenewedBy string     `json:"renewedBy,omitempty"`
	Renewal   *time.Time `json:"renewal,omitempty"` // when Sealift renews it
	Problem   string     `json:"problem,omitempty"` // the file's fault

	cert *x509.Certificate
	file string // has the certificate: File, or the file that a kubeconfig names
}

// The time before the end when a certificate needs attention. The kubelet renews its own, at the latest when a tenth of their
// time is left.
const (
	warnBefore        = 90 * 24 * time.Hour
	warnKubeletBefore = 30 * 24 * time.Hour
)

// Due reports whether the certificate has expired, expires soon and nobody renews it, or is not valid yet.
func (e Entry) Due(now time.Time) bool {
	if e.End == nil {
		return false
	}
	if e.Begin != nil {
		return true
	}
	before := warnBefore
	if e.RenewedBy == Kubelet {
		before = warnKubeletBefore
	}
	return e.End.Sub(now) < before
}

// Ended reports whether the certificate has expired.
func (e Entry) Ended(now time.Time) bool { return e.End != nil && !now.Before(*e.End) }

// Why says in words why the file needs attention.
func (e Entry) Why() string {
	switch {
	case e.Problem != "":
		return "is damaged: " + e.Problem
	case e.Days == nil:
		return "has no end"
	case e.Begin != nil:
		return fmt.Sprintf("begins on %s, which is after the clock of this host; set the clock, for instance with timedatectl set-time", e.Begin.UTC().Format(time.RFC3339))
	case *e.Days < 0:
		return "ended on " + e.End.Format(time.DateOnly)
	}
	return fmt.Sprintf("ends on %s, in %d days", e.End.Format(time.DateOnly), *e.Days)
}

// host is a node of a cluster, by its files.
type host struct{ files.Host }

// List lists the certificates, pairs of keys and kubeconfigs of this node in the order of their files.
func List(now time.Time) ([]Entry, error) { return host{}.list(now) }

func (h host) list(now time.Time) ([]Entry, error) {
	entries := []Entry{}
	err := filepath.WalkDir(h.Path(kubeadm.PKI), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := h.Name(path)
		switch filepath.Ext(name) {
		case ".crt":
			entries = append(entries, h.certificate(name))
		case ".pub":
			entries = append(entries, Entry{File: name, Kind: KeyPair})
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the certificates of kubeadm: %w", err)
	}
	configs, err := filepath.Glob(h.Path(kubeadm.Folder + "/*.conf"))
	if err != nil {
		return nil, err
	}
	for _, path := range configs {
		entries = append(entries, h.kubeconfig(h.Name(path)))
	}
	for _, name := range []string{kubeletServing, kubeletRotated} {
		if _, err := os.Stat(h.Path(name)); err == nil {
			entries = append(entries, h.certificate(name))
		}
	}
	manifests, err := h.manifests()
	if err != nil {
		return nil, err
	}
	for i := range entries {
		e := &entries[i]
		e.UsedBy = users(e.File, manifests)
		if e.cert != nil {
			days := int(e.cert.NotAfter.Sub(now) / (24 * time.Hour))
			if e.cert.NotAfter.Before(now) {
				days--
			}
			e.End, e.Days = &e.cert.NotAfter, &days
			if now.Before(e.cert.NotBefore) {
				e.Begin = &e.cert.NotBefore
			}
			e.Subject, e.Issuer = e.cert.Subject.String(), e.cert.Issuer.String()
		}
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.File, b.File) })
	return entries, h.schedule(entries)
}

// certificate reads a file with a certificate, and the key beside it or in it.
func (h host) certificate(name string) Entry {
	e := Entry{File: name, Kind: Leaf, file: name}
	text, err := regularfile.ReadFile(h.Path(name))
	if err != nil {
		e.Problem = err.Error()
		return e
	}
	if e.cert, err = parse(text); err != nil {
		e.Problem = err.Error()
		return e
	}
	if e.cert.IsCA {
		e.Kind = CA
	}
	key := text
	if beside, isPair := strings.CutSuffix(name, ".crt"); isPair {
		key, err = regularfile.ReadFile(h.Path(beside + ".key"))
		if errors.Is(err, fs.ErrNotExist) { // a worker has only the CA's certificate
			return e
		}
	}
	if err == nil {
		_, err = tls.X509KeyPair(text, key)
	}
	if err != nil {
		e.Problem = "its key does not fit: " + err.Error()
	}
	return e
}

// parse reads the first certificate of a PEM.
func parse(text []byte) (*x509.Certificate, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, errors.New("it has no certificate")
}

// kubeconfig reads the certificate of a kubeconfig's user. A kubeconfig may do without, such as one with a token.
func (h host) kubeconfig(name string) Entry {
	e := Entry{File: name, Kind: Kubeconfig, file: name}
	config, err := clientcmd.LoadFromFile(h.Path(name))
	if err != nil {
		e.Problem = err.Error()
		return e
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil || config.AuthInfos[context.AuthInfo] == nil {
		e.Problem = "its current context names no user"
		return e
	}
	user := config.AuthInfos[context.AuthInfo]
	if user.ClientCertificate != "" {
		of := h.certificate(user.ClientCertificate)
		e.cert, e.file, e.Problem = of.cert, user.ClientCertificate, of.Problem
		return e
	}
	if len(user.ClientCertificateData) == 0 {
		return e
	}
	if e.cert, err = parse(user.ClientCertificateData); err == nil {
		_, err = tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData)
	}
	if err != nil {
		e.Problem = err.Error()
	}
	return e
}

// manifests reads the manifests of static pods, by the names of the pods.
func (h host) manifests() (map[string]string, error) {
	files, err := filepath.Glob(h.Path(manifestFolder + "/*.yaml"))
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := regularfile.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all[strings.TrimSuffix(filepath.Base(file), ".yaml")] = string(text)
	}
	return all, nil
}

// others are the users of files besides static pods.
var others = map[string][]string{
	"/etc/kubernetes/pki/ca.crt":                      {"kubelet"},
	"/etc/kubernetes/pki/etcd/healthcheck-client.crt": {"sealift", "etcdctl"},
	"/etc/kubernetes/admin.conf":                      {"administrators", "sealift"},
	"/etc/kubernetes/super-admin.conf":                {"administrators"},
	"/etc/kubernetes/kubelet.conf":                    {"kubelet"},
	kubeletServing:                                    {"kubelet"},
	kubeletRotated:                                    {"kubelet"},
}

// users returns the static pods and other programs that use a file.
func users(file string, manifests map[string]string) []string {
	names := slices.Clone(others[file])
	for pod, text := range manifests {
		if mentions(text, file) || filepath.Ext(file) == ".pub" && mentions(text, strings.TrimSuffix(file, ".pub")+".key") {
			names = append(names, pod)
		}
	}
	slices.Sort(names)
	return append([]string{}, names...)
}

// mentions reports whether a manifest names a file, and not only one whose name begins in the same way.
func mentions(text, file string) bool {
	for rest := text; ; {
		_, after, found := strings.Cut(rest, file)
		if !found {
			return false
		}
		if after == "" || !nameByte(after[0]) {
			return true
		}
		rest = after
	}
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._-/", c) >= 0
}
