package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sealift/sealift/installer/host/speed"
)

// stallTime is how long a member may send nothing before a snapshot fails.
const stallTime = time.Minute

// EtcdAddress says where a member of etcd is. The zero value is the member on this host.
type EtcdAddress struct {
	Endpoint string // such as https://127.0.0.1:2379
	PKI      string // folder with ca.crt and healthcheck-client.{crt,key}, as kubeadm names them
}

// EtcdSnapshot is a consistent copy of etcd's data while a member sends it: the database, then the database's SHA-256.
// 'etcdutl snapshot restore' reads the same bytes.
//
// Read returns io.EOF only if all bytes came and the digest is right.
type EtcdSnapshot struct {
	Size     int64  // bytes, digest included
	Revision int64  // the snapshot has every change up to this one, and may have later ones
	Cluster  uint64 // etcd's own ID of the cluster
	Version  string // etcd's version of the storage, such as 3.6.0; empty before etcd 3.6
	Led      bool   // the member has a leader; if not, the other members may have gone on without it

	e       *etcd
	stream  pb.Maintenance_SnapshotClient
	cancel  context.CancelCauseFunc
	ctx     context.Context
	stalled *time.Timer
	pending []byte // received and not read
	read    int64
	check   EtcdCheck
	ended   error
}

// open makes a client of the member, and returns its endpoint.
func (a EtcdAddress) open(ctx context.Context) (e *etcd, endpoint string, err error) {
	endpoint, pki := cmp.Or(a.Endpoint, ownEtcd()), cmp.Or(a.PKI, etcdPKI)
	config, err := etcdCredentials(pki)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s has no credentials for etcd; run the command on a control plane: %w", pki, err)
	}
	if e, err = newEtcd(ctx, config, endpoint); err != nil {
		return nil, "", fmt.Errorf("etcd at %s: %w", endpoint, err)
	}
	return e, endpoint, nil
}

// OpenEtcdSnapshot asks a member for a snapshot. Close it.
func OpenEtcdSnapshot(ctx context.Context, from EtcdAddress) (*EtcdSnapshot, error) {
	e, endpoint, err := from.open(ctx)
	if err != nil {
		return nil, err
	}
	s, err := e.snapshot(ctx, endpoint)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a snapshot of etcd at %s: %w", endpoint, err), e.Close())
	}
	return s, nil
}

// snapshot uses the protocol directly: it sends the size before the content, unlike the client of clientv3.
func (e *etcd) snapshot(ctx context.Context, endpoint string) (*EtcdSnapshot, error) {
	asked, done := context.WithTimeout(ctx, speed.Patience(etcdTime))
	defer done()
	status, err := e.Status(asked, endpoint)
	if err != nil {
		return nil, err
	}
	s := &EtcdSnapshot{Revision: status.Header.Revision, Cluster: status.Header.ClusterId, Led: status.Leader != 0, e: e}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.stalled = time.AfterFunc(stallTime, func() { s.cancel(fmt.Errorf("etcd sent nothing for %v", stallTime)) })
	first := new(pb.SnapshotResponse)
	if s.stream, err = pb.NewMaintenanceClient(e.ActiveConnection()).Snapshot(s.ctx, &pb.SnapshotRequest{}); err == nil {
		first, err = s.receive()
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	s.pending, s.Version = first.Blob, first.Version
	s.Size = int64(first.RemainingBytes) + int64(len(first.Blob)) + sha256.Size
	return s, nil
}

// receive reads the next message, and returns the cause if the wait for it was ended.
func (s *EtcdSnapshot) receive() (*pb.SnapshotResponse, error) {
	s.stalled.Reset(stallTime)
	defer s.stalled.Stop()
	message, err := s.stream.Recv()
	switch {
	case err != nil && !errors.Is(err, io.EOF) && s.ctx.Err() != nil:
		err = context.Cause(s.ctx)
	case err == nil && len(message.Blob) == 0 && message.RemainingBytes > 0: // it would continue forever
		err = errors.New("etcd cannot read its own database; see its log in /var/log/pods")
	}
	return message, err
}

// Read implements io.Reader.
func (s *EtcdSnapshot) Read(p []byte) (int, error) {
	for len(s.pending) == 0 && s.ended == nil {
		message, err := s.receive()
		switch {
		case errors.Is(err, io.EOF):
			s.ended = s.complete()
		case err != nil:
			s.ended = fmt.Errorf("receive the snapshot of etcd: %w", err)
		default:
			s.pending = message.Blob
		}
	}
	if len(s.pending) == 0 {
		return 0, s.ended
	}
	n := copy(p, s.pending)
	s.pending = s.pending[n:]
	s.read += int64(n)
	_, _ = s.check.Write(p[:n])
	return n, nil
}

func (s *EtcdSnapshot) complete() error {
	if s.read != s.Size {
		return fmt.Errorf("etcd sent %d bytes of a snapshot of %d; try again", s.read, s.Size)
	}
	if err := s.check.Err(); err != nil {
		return err
	}
	return io.EOF
}

func (s *EtcdSnapshot) stop() {
	s.stalled.Stop()
	s.cancel(nil)
}

// Close ends the transfer.
func (s *EtcdSnapshot) Close() error {
	s.stop()
	return s.e.Close()
}

// EtcdCheck checks the bytes of a snapshot of etcd that are written to it: the last 32 are the SHA-256 of those before.
// The zero value is ready for use.
type EtcdCheck struct {
	sum  hash.Hash
	last []byte // at most 32 bytes outside the sum
}

// ErrEtcdSnapshot means that bytes are not a complete snapshot of etcd.
var ErrEtcdSnapshot = errors.New("this snapshot of etcd is incomplete: its SHA-256 differs from the one at its end")

// Write accepts the next bytes. It never fails.
func (c *EtcdCheck) Write(p []byte) (int, error) {
	if c.sum == nil {
		c.sum = sha256.New()
	}
	keep := max(0, sha256.Size-len(p)) // of the last state
	if out := len(c.last) - keep; out > 0 {
		c.sum.Write(c.last[:out])
		c.last = c.last[out:]
	}
	cut := max(0, len(p)-sha256.Size)
	c.sum.Write(p[:cut])
	c.last = append(bytes.Clone(c.last), p[cut:]...)
	return len(p), nil
}

// Err returns ErrEtcdSnapshot unless all bytes of a snapshot were written.
func (c *EtcdCheck) Err() error {
	if c.sum == nil || !bytes.Equal(c.sum.Sum(nil), c.last) {
		return ErrEtcdSnapshot
	}
	return nil
}
