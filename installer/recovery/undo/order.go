package undo

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/regularfile"
)

// Stage is the progress of an Order on a control plane.
type Stage string

// The stages, in their order.
const (
	// Prepared: everything is ready, and nothing that runs has changed. The order may still be dropped.
	Prepared Stage = "armed"
	// Committed: every control plane is undone. It can no longer be stopped.
	Committed Stage = "going"
	// Restored: the cluster answers with the old data. Sealift's own state is restored next.
	Restored Stage = "gone"
)

// JointUndo has several control planes undo one upgrade together. The control plane that leads writes it, and the others fetch it. It
// is beside its set, and is removed with the set.
type JointUndo struct {
	// ID identifies this undo. It is also the token of etcd's new cluster: members with the data from before and after the upgrade
	// do not talk to each other.
	ID      string `json:"id"`
	Upgrade string `json:"upgrade"` // of the set
	Leader  string `json:"leader"`  // node that leads
	Server  string `json:"server"`  // host:port where the others fetch this order and the snapshot
	// Snapshot is the sha256 of the snapshot of etcd, in hex.
	Snapshot string `json:"snapshot"`
	// Members are all control planes as members of etcd. They restore the same snapshot.
	Members []cluster.EtcdMember `json:"members"`
	Stage   Stage                `json:"stage"`
}

const orderName = "order.json"

// maxOrder bounds an order that is read, and maxMembers the control planes in it.
const (
	maxOrder   = 64 << 10
	maxMembers = 32
)

var identifier = regexp.MustCompile(`^[0-9a-f]{16}$`)

// ParseOrder reads an Order.
func ParseOrder(text []byte) (o JointUndo, err error) {
	if len(text) > maxOrder {
		return JointUndo{}, fmt.Errorf("the joint undo has %d bytes, more than %d", len(text), maxOrder)
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return JointUndo{}, fmt.Errorf("the joint undo: %w", err)
	}
	if err := o.check(); err != nil {
		return JointUndo{}, fmt.Errorf("the joint undo: %w", err)
	}
	return o, nil
}

func (o JointUndo) check() error {
	sum, err := hex.DecodeString(o.Snapshot)
	switch {
	case !identifier.MatchString(o.ID) || !identifier.MatchString(o.Upgrade):
		return fmt.Errorf("it has no ID, or names no upgrade: %q, %q", o.ID, o.Upgrade)
	case err != nil || len(sum) != 32:
		return errors.New("it has no sha256 of the snapshot")
	case !slices.Contains([]Stage{Prepared, Committed, Restored}, o.Stage):
		return fmt.Errorf("this sealift does not know the stage %q", o.Stage)
	case len(o.Members) < 2 || len(o.Members) > maxMembers || !o.Has(o.Leader):
		return fmt.Errorf("it has %d members, or not the one that leads", len(o.Members))
	}
	if _, _, err := net.SplitHostPort(o.Server); err != nil {
		return fmt.Errorf("the server: %w", err)
	}
	for n, m := range o.Members {
		if m.Name == "" || len(m.Peers) == 0 || slices.Contains(m.Peers, "") || slices.IndexFunc(o.Members, func(other cluster.EtcdMember) bool { return other.Name == m.Name }) != n {
			return fmt.Errorf("member %d has no name or URL, or is listed twice", n)
		}
	}
	return nil
}

// Has reports whether a node is one of the control planes.
func (o JointUndo) Has(node string) bool {
	return slices.ContainsFunc(o.Members, func(m cluster.EtcdMember) bool { return m.Name == node })
}

// Digest identifies the content of the order, in every stage: sha256 in hex.
func (o JointUndo) Digest() string {
	o.Stage = ""
	return lifecycle.Digest(o)
}

// In is the order in a stage.
func (o JointUndo) In(stage Stage) JointUndo {
	o.Stage = stage
	return o
}

// Encode writes an order as ParseOrder reads it.
func (o JointUndo) Encode() []byte {
	text, _ := json.MarshalIndent(o, "", "  ") // structs of strings: cannot fail
	return append(text, '\n')
}

// Order reads the order about this set; ok is false if there is none.
func (s Set) Order() (o JointUndo, ok bool, err error) {
	text, err := regularfile.ReadFile(s.order())
	if errors.Is(err, fs.ErrNotExist) {
		return o, false, nil
	}
	if err == nil {
		o, err = ParseOrder(text)
	}
	if err == nil && o.Upgrade != s.Upgrade {
		err = errors.New("it is about another upgrade")
	}
	if err != nil {
		return JointUndo{}, false, fmt.Errorf("%s: %w", s.order(), err)
	}
	return o, true, nil
}

// WriteOrder keeps an order about this set.
func (s Set) WriteOrder(o JointUndo) error { return files.WriteMode(s.order(), 0o600, o.Encode()) }

// DropOrder removes the order about this set. It must not be Committed or later.
func (s Set) DropOrder() error {
	if err := files.Remove(s.order()); err != nil {
		return err
	}
	return files.SyncDir(s.dir)
}

func (s Set) order() string { return filepath.Join(s.dir, orderName) }

const restoredName = "restored"

// MarkRestored notes that an only control plane has its data and files of before again: Sealift's own state is restored next. An order
// says that of several ones.
func (s Set) MarkRestored() error {
	return files.WriteMode(filepath.Join(s.dir, restoredName), 0o600, []byte("the data are back\n"))
}

// IsRestored reports whether that was noted.
func (s Set) IsRestored() (bool, error) {
	if s.dir == "" { // it is none
		return false, nil
	}
	_, err := os.Stat(filepath.Join(s.dir, restoredName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Ordered finds the set of an order, with the order. ok is false if there is no order.
func (s Store) Ordered() (set Set, o JointUndo, ok bool, err error) {
	set, err = s.Newest()
	if errors.Is(err, ErrNone) {
		return set, o, false, nil
	}
	if err == nil {
		o, ok, err = set.Order()
	}
	return set, o, ok, err
}

// For returns what the requesting node gets from the node own, which leads an undo. The error is fs.ErrNotExist if own leads
// none, and share.ErrMember if the order does not name the node.
func (s Store) For(own, asks string) (share.Undo, error) {
	set, o, ok, err := s.Ordered()
	switch {
	case err != nil:
		return share.Undo{}, err
	case !ok || o.Leader != own:
		return share.Undo{}, fmt.Errorf("not an undo that this node leads: %w", fs.ErrNotExist)
	case !o.Has(asks):
		return share.Undo{}, share.ErrMember
	}
	return share.Undo{Order: o.Encode(), Etcd: set.Etcd()}, nil
}
