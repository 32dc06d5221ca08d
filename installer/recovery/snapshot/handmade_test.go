package snapshot

import (
	"archive/tar"
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/recovery/volume"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// handmade is a snapshot made by a test, as any holder of the public key can.
type handmade struct {
	Index
	content map[string]string // of files and volumes
	etcd    string            // besides its digest
	// seal makes the signatures; nil for none. last is the one at the end, if different.
	seal, last func(summary) (seal, error)
}

// handmadeBy makes a snapshot of a small cluster. Its CA is in the folder ca.
func handmadeBy(t *testing.T, ca string) handmade {
	t.Helper()
	h := handmade{
		Index: Index{Format: Format, Time: time.Now().UTC().Truncate(time.Second), Node: "host-1", Cluster: authority(t, ca).hash(), Kubernetes: "1.36.3"},
		etcd:  strings.Repeat("etcd", 256),
	}
	h.content = map[string]string{}
	h.add("etc/kubernetes/pki/ca.key", "secret")
	h.Volumes = []Volume{{Volume: volume.Volume{Name: "data", Path: "/srv/data"}}}
	h.content["data"] = "the volume"
	h.Etcd.Size = int64(len(h.etcd)) + sha256.Size
	h.seal = authority(t, ca).seals(t, "host-1")
	return h
}

func (h *handmade) add(name, content string) {
	sum := sha256.Sum256([]byte(content))
	h.Files = append(h.Files, File{Name: name, Mode: 0o600, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])})
	h.content[name] = content
}

// pack encrypts it.
func (h handmade) pack(t *testing.T, to []age.Recipient) []byte {
	t.Helper()
	var b bytes.Buffer
	encrypted, err := age.Encrypt(&b, to...)
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(encrypted)
	err = errors.Join(h.write(packed), packed.Close(), encrypted.Close())
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (h handmade) write(to io.Writer) (err error) {
	w := writer{tar.NewWriter(to), h.Time, newSummary()}
	file := func(name, content string) { err = errors.Join(err, w.file(name, []byte(content))) }
	sealed := func(name string, by func(summary) (seal, error)) {
		if by == nil {
			return
		}
		s, failed := by(w.sum)
		text, failedToo := json.Marshal(s)
		err = errors.Join(err, failed, failedToo)
		file(name, string(text))
	}
	index, failed := json.Marshal(h.Index)
	err = failed
	file(indexName, string(index))
	sealed(headSealName, h.seal)
	for _, f := range h.Files {
		file(f.Name, h.content[f.Name])
	}
	sum := sha256.Sum256([]byte(h.etcd))
	file(etcdName, h.etcd+string(sum[:]))
	for _, v := range h.Volumes {
		sum := sha256.Sum256([]byte(h.content[v.Name]))
		file(partOf(v, 0), h.content[v.Name])
		file(sumOf(v), fmt.Sprintf(`{"size":%d,"sha256":"%x"}`, len(h.content[v.Name]), sum))
	}
	if h.last == nil {
		h.last = h.seal
	}
	sealed(sealName, h.last)
	return errors.Join(err, w.Close())
}

type clusterCA struct{ identity.Authority }

func authority(t *testing.T, folder string) clusterCA {
	t.Helper()
	a, err := identity.ReadAuthority(folder)
	if err != nil {
		t.Fatal(err)
	}
	return clusterCA{a}
}

func (a clusterCA) hash() string { return identity.CAHash(a.Certificate) }

// seals signs as a control plane does.
func (a clusterCA) seals(t *testing.T, node string) func(summary) (seal, error) {
	t.Helper()
	s, err := a.Signer(node)
	if err != nil {
		t.Fatal(err)
	}
	return signer{a.Certificate, s}.seal
}

// byKubelet signs with the key and the certificate of a worker's kubelet.
func byKubelet(t *testing.T, ca string) func(summary) (seal, error) {
	t.Helper()
	file := fixture.ClientCertificate(t, ca, "system:node:host-1", "system:nodes")
	pair, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		t.Fatal(err)
	}
	return func(s summary) (seal, error) {
		digest := sha256.Sum256(append([]byte(identity.ForSnapshot+"\x00"), s.Sum(nil)...))
		value, err := pair.PrivateKey.(crypto.Signer).Sign(rand.Reader, digest[:], crypto.SHA256)
		return seal{authority(t, ca).Certificate.Raw, identity.Signature{Certificate: pair.Leaf.Raw, Value: value}}, err
	}
}

// evil adds files that a forger wants root to write.
func evil(h *handmade) {
	h.add("etc/cron.d/evil", "* * * * * root id\n")
	h.add("root/.ssh/authorized_keys", "ssh-ed25519 AAAA forger\n")
}
