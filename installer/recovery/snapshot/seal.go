package snapshot

import (
	"archive/tar"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/sealift/sealift/installer/cluster/identity"
)

// The entries with signatures: the second one signs the index, so that a forgery is refused after its first bytes. The last one signs all.
const (
	headSealName = "snapshot.json.signature"
	sealName     = "signature"
	maxSeal      = 64 << 10 // bytes
)

// seal is the content of an entry with a signature. It signs all that precedes the entry: see summary.
type seal struct {
	CA []byte `json:"ca"` // of the cluster, DER
	identity.Signature
}

// summary is the digest of entries: sha256 of the name and the size of each one, and of its content.
type summary struct{ hash.Hash }

func newSummary() summary { return summary{sha256.New()} }

// begin adds the next entry. Its content follows.
func (s summary) begin(name string, size int64) { fmt.Fprintf(s, "%q %d\n", name, size) }

// entries reads the entries of an archive, and hashes them.
type entries struct {
	archive *tar.Reader
	sum     summary
}

func newEntries(archive *tar.Reader) *entries { return &entries{archive, newSummary()} }

// Next goes to the next entry. The one before must have been read to its end.
func (e *entries) Next() (*tar.Header, error) {
	header, err := e.archive.Next()
	if err == nil {
		e.sum.begin(header.Name, header.Size)
	}
	return header, err
}

func (e *entries) Read(p []byte) (int, error) {
	n, err := e.archive.Read(p)
	e.sum.Write(p[:n])
	return n, err
}

// small goes to the next entry, which must be the named one, and returns its content of at most max bytes.
func (e *entries) small(name string, max int64) ([]byte, error) {
	header, err := e.Next()
	if err != nil {
		return nil, damaged(err)
	}
	if header.Name != name || header.Typeflag != tar.TypeReg || header.Size > max {
		return nil, damaged(fmt.Errorf("%q of %d bytes stands where %s is expected", header.Name, header.Size, name))
	}
	content, err := io.ReadAll(e)
	if err != nil {
		return nil, damaged(err)
	}
	return content, nil
}

// sealed reads the next entry, which must sign all entries before it.
func (e *entries) sealed(name string, index Index, trust Trust) error {
	digest := e.sum.Sum(nil)
	text, err := e.small(name, maxSeal)
	if err != nil {
		return err
	}
	var s seal
	if err := json.Unmarshal(text, &s); err != nil {
		return damaged(err)
	}
	return trust.check(index, s, digest)
}

// signer signs the summary of a snapshot.
type signer struct {
	ca *x509.Certificate
	identity.Signer
}

func (s signer) seal(sum summary) (seal, error) {
	signature, err := s.Sign(identity.ForSnapshot, sum.Sum(nil))
	return seal{s.ca.Raw, signature}, err
}

// Trust decides whose snapshots are accepted.
type Trust struct {
	// Clusters are the hashes of CAs, as identity.CAHash writes them.
	Clusters []string
	// Unsigned takes snapshots of formats 1 and 2. Any holder of the public key can have made them.
	Unsigned bool
}

// ErrUntrusted means that nothing proves that a trusted cluster made a snapshot.
var ErrUntrusted = errors.New("nothing proves that your cluster made the snapshot")

// UnknownClusterError reports that a control plane signed a snapshot, of a cluster that is not trusted.
type UnknownClusterError struct {
	Cluster string   // hash of the CA that signed
	Index   Index    // the signed content
	Trusted []string // hashes of CAs; empty if none were named to be trusted
}

func (e *UnknownClusterError) Error() string {
	signed := fmt.Sprintf("%s signed it, a control plane of the cluster with the CA %s", e.Index.Node, e.Cluster)
	if len(e.Trusted) == 0 {
		return signed + ", and this host has no CA to compare with. If the join commands of your cluster have that hash, give --ca-hash " + e.Cluster
	}
	return fmt.Sprintf("%s, and not of %q", signed, e.Trusted)
}

// Unwrap makes it an ErrUntrusted.
func (e *UnknownClusterError) Unwrap() error { return ErrUntrusted }

// check refuses a seal unless a control plane of a trusted cluster made it. It has to be the one that the index names.
func (t Trust) check(index Index, s seal, digest []byte) error {
	ca, err := x509.ParseCertificate(s.CA)
	if err != nil {
		return fmt.Errorf("%w: its CA: %w", ErrUntrusted, err)
	}
	node, err := s.Verify([]*x509.Certificate{ca}, identity.ForSnapshot, digest, index.Time)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	cluster := identity.CAHash(ca)
	if node != index.Node || cluster != index.Cluster {
		return fmt.Errorf("%w: it names %s of %s, and %s of %s signed it", ErrUntrusted, index.Node, index.Cluster, node, cluster)
	}
	if !slices.Contains(t.Clusters, cluster) {
		return &UnknownClusterError{Cluster: cluster, Index: index, Trusted: t.Clusters}
	}
	return nil
}

// unsigned refuses a snapshot without a signature, unless those are allowed.
func (t Trust) unsigned(index Index) error {
	if !t.Unsigned {
		return fmt.Errorf("%w: it has format %d, which has no signature, so that anybody with the public key can have made it. "+
			"If you know where it comes from, give --allow-unsigned; the next release does not read it", ErrUntrusted, index.Format)
	}
	if len(t.Clusters) > 0 && !slices.Contains(t.Clusters, index.Cluster) {
		return fmt.Errorf("%w: it belongs to the cluster %s, not to %q", ErrUntrusted, index.Cluster, t.Clusters)
	}
	return nil
}
