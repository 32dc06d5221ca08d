package exclusion

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/hostpath"
)

// Find lists unfinished operations in the cluster and on this host. client is as for Check.
func (h Host) Find(ctx context.Context, client kubernetes.Interface) (all []HalfDone, err error) {
	for _, find := range []func() (*HalfDone, error){h.undo, h.authorities, h.interrupted} {
		found, err := find()
		if err != nil {
			return nil, err
		}
		if found != nil {
			all = append(all, *found)
		}
	}
	if client == nil {
		return all, nil
	}
	records, err := record.Store{Client: client}.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for unfinished operations: %w", err)
	}
	for _, h := range UnderWay(records) {
		if !slices.ContainsFunc(all, func(o HalfDone) bool { return o.Operation == h.Operation }) {
			all = append(all, h)
		}
	}
	slices.SortStableFunc(all, func(a, b HalfDone) int { return cmp.Compare(a.Operation, b.Operation) })
	return all, nil
}

// undo finds the order of an undo that can no longer be stopped, or an only control plane whose data are back.
func (h Host) undo() (*HalfDone, error) {
	set, o, ok, err := undo.Store{Root: cmp.Or(h.Root, node.DefaultRoot)}.Ordered()
	if err != nil || ok && o.Stage == undo.Prepared {
		return nil, err
	}
	if ok {
		return &HalfDone{Undo, "the control planes are going back to where they were before an upgrade", record.ResumeUndo(o.Leader)}, nil
	}
	if restored, err := set.IsRestored(); err != nil || !restored {
		return nil, err
	}
	return &HalfDone{Undo, "this control plane is going back to where it was before an upgrade", "'" + hostpath.Sudo("upgrade undo") + "'"}, nil
}

// authorities finds a rotation of CAs that this host knows of.
func (h Host) authorities() (*HalfDone, error) {
	s, ok, err := authority.Read(h.Rootfs)
	if err != nil || !ok {
		return nil, err
	}
	return &HalfDone{CAs, record.RotatingCAs(s.ID), "'" + s.Next() + "'"}, nil
}

// The steps that end a change of an address, forward or back.
const (
	ReaddressEnd     = "readdress/ready"
	ReaddressBackEnd = "readdress/back"
	// ReaddressBegin is the step after which an address changes.
	ReaddressBegin = "readdress/keep"
)

// interrupted finds unfinished operations in the journal of this host. It has only one at a time.
func (h Host) interrupted() (found *HalfDone, err error) {
	records, err := lifecycle.ReadJournal(node.StateDir(cmp.Or(h.Root, node.DefaultRoot)))
	for _, r := range records {
		finished := r.Outcome == lifecycle.Finished
		switch r.Operation {
		case lifecycle.Readdressing:
			if finished && r.Step == ReaddressBegin {
				_, to, _ := strings.Cut(r.Inputs, " ")
				to, _, _ = strings.Cut(to, " ")
				if _, err := netip.ParseAddr(to); err == nil {
					found = &HalfDone{Readdress, "this node is getting the address " + to, "'" + hostpath.Sudo("node readdress "+to) + "'"}
				}
			} else if finished && (r.Step == ReaddressEnd || r.Step == ReaddressBackEnd) {
				found = nil
			}
		case lifecycle.Restoring:
			found = restoring(found, r)
		case lifecycle.Upgrading, lifecycle.Rotating, lifecycle.RotatingCAs, lifecycle.MovingAPI:
			if found != nil && found.Operation == Restore { // it was given up: a half-done restore excludes these
				found = nil
			}
		}
	}
	return found, err
}

// restoring returns what is half done after a record of a restore. A restore counts as given up a day after it stopped the control plane or
// started it again. In between, files and data of two times are mixed, and no clock changes that.
func restoring(found *HalfDone, r lifecycle.Record) *HalfDone {
	recent, finished := time.Since(r.Time) < restore.Resumes, r.Outcome == lifecycle.Finished
	switch {
	case r.Step == restore.FirstStep && recent, r.Step == restore.ExchangeStep:
		return &HalfDone{Restore, "a snapshot is being restored on this host", "run the 'sealift restore' or 'sealift upgrade undo' again that was interrupted"}
	case finished && (r.Step == restore.LastStep || r.Step == restore.StartStep && !recent):
		return nil
	}
	return found
}
