// Package exclusion decides which changes of a cluster may begin while another one is half done. It reads what each change leaves of
// itself in the cluster and on this host, and changes nothing.
package exclusion

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/operation/record"
)

// Operation is a change of a cluster, or of a node as a part of it.
type Operation string

// The operations.
const (
	Upgrade      Operation = "upgrade"
	Undo         Operation = "undo of an upgrade"
	CAs          Operation = "rotation of CAs"
	Keys         Operation = "rotation of keys for Secrets"
	LoadBalancer Operation = "change of the load balancer"
	Images       Operation = "delivery of images"
	// Readdress changes a node's address while it has the old one. FollowAddress does so after the host has lost the old one.
	Readdress        Operation = "change of an address"
	FollowAddress    Operation = "change of a lost address"
	JoinControlPlane Operation = "join of a control plane"
	Restore          Operation = "restore of a snapshot"
	// Renew issues certificates. Nothing excludes it: without valid certificates nothing can be ended.
	Renew Operation = "renewal of certificates"
)

// Operations are all of them. 'node remove' and 'reset' are none: nothing excludes them, because a cluster gets rid by them of a host on
// which something stays half done.
func Operations() []Operation {
	return []Operation{Upgrade, Undo, CAs, Keys, LoadBalancer, Images, Readdress, FollowAddress, JoinControlPlane, Restore, Renew}
}

// kinds are the operations of records. A kind that is not here has its record's name, and excludes every operation: see Excludes.
var kinds = map[string]Operation{record.Upgrade: Upgrade, record.Undo: Undo, record.CAs: CAs, record.Keys: Keys, record.LoadBalancer: LoadBalancer, record.Images: Images}

// OfKind returns the operation of a record.
func OfKind(kind string) Operation { return cmp.Or(kinds[kind], Operation(kind)) }

// Excludes reports whether an operation must not begin while another one is half done. Unlisted operations run one at a time: they
// exclude all others, and the others exclude them, except those that repair a host.
func Excludes(halfDone, begins Operation) bool {
	known := Operations()
	switch {
	case halfDone == begins:
		return false
	case !slices.Contains(known, halfDone):
		return !slices.Contains([]Operation{Renew, Restore, FollowAddress}, begins)
	case !slices.Contains(known, begins):
		return len(excludes(halfDone)) > 0
	}
	return slices.Contains(excludes(halfDone), begins)
}

// UnderWay are the operations of records that are half done. One that waits for a person is not.
func UnderWay(all record.All) (halfDone []HalfDone) {
	for _, r := range all.Sorted() {
		if !r.Waits {
			halfDone = append(halfDone, HalfDone{OfKind(r.Kind), r.About, r.Next})
		}
	}
	return halfDone
}

// excludes lists what must not begin while an operation is half done. That operation itself is not in its own list: its command
// resumes it. Delivered images, joins and renewals leave nothing half done that another operation could harm.
func excludes(halfDone Operation) []Operation {
	switch halfDone {
	case Upgrade:
		// An undo puts files and etcd's data back that the others change. It refuses other addresses and members of etcd.
		return []Operation{CAs, Keys, LoadBalancer, Readdress, JoinControlPlane}
	case Undo:
		// Etcd's data is exchanged. Concurrent writes are lost, and agents would replace restored data.
		return []Operation{Upgrade, CAs, Keys, LoadBalancer, Images, Readdress, FollowAddress, JoinControlPlane, Restore}
	case CAs:
		// Files of one CA would be mixed with files of another.
		return []Operation{Upgrade, Undo, Keys, LoadBalancer, Readdress, FollowAddress, JoinControlPlane}
	case Keys:
		// API servers with different keys restart in sequence. Control planes that join get the keys, and an undo puts etcd's data
		// and the keys back that fit.
		return []Operation{Upgrade, CAs, LoadBalancer, Readdress}
	case LoadBalancer:
		// Some nodes use the old load balancer, some the new one. Control planes that join get a certificate for both.
		return []Operation{Upgrade, Undo, CAs, Keys, Readdress}
	case Readdress:
		return []Operation{Upgrade, Undo, CAs, Keys, LoadBalancer, Images, JoinControlPlane}
	case Restore:
		return []Operation{Upgrade, CAs, Keys, LoadBalancer, Images, Readdress, FollowAddress, JoinControlPlane}
	}
	return nil
}

// HalfDone is an operation that has begun and not ended.
type HalfDone struct {
	Operation Operation
	What      string // a sentence without its end, such as "the cluster's CAs are being rotated"
	Next      string // the command that resumes, and where it has to run
}

// Error reports that an operation cannot begin.
type Error struct {
	Begins Operation
	HalfDone
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s; no %s may begin meanwhile: end that first; next: %s", e.What, e.Begins, e.Next)
}

// Refuse returns an *Error if an operation must not begin while others are half done.
func Refuse(begins Operation, halfDone []HalfDone) error {
	for _, h := range halfDone {
		if Excludes(h.Operation, begins) {
			return &Error{begins, h}
		}
	}
	return nil
}

// Host is where records of unfinished operations are, in addition to the cluster.
type Host struct {
	Root   string // install root; "" is the default
	Rootfs string // folder with the host's files; "" is /
}

// Check refuses an operation that would harm an unfinished one. client has the rights of an administrator; it is nil on a worker, and
// while the API is unreachable: then only this host's records count. A refusal is an *Error.
func (h Host) Check(ctx context.Context, client kubernetes.Interface, begins Operation) error {
	if begins == Renew {
		return nil // without a look: damaged records shall not stop it
	}
	all, err := h.Find(ctx, client)
	if err != nil {
		return err
	}
	return Refuse(begins, all)
}
