package exclusion

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/leader"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/hostpath"
)

// Find lists what is half done in the cluster and on this host. client is as for Check.
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
	for record, read := range map[leader.Record]func(map[string]string) (*HalfDone, error){
		leader.UpgradeRecord: upgrading, leader.CARecord: rotating, leader.KeysRecord: encrypting, leader.LoadBalancerRecord: moving,
	} {
		data, known, err := record.Read(ctx, client)
		if err != nil {
			return nil, fmt.Errorf("look for what is half done: %w", err)
		}
		if !known {
			continue
		}
		found, err := read(data)
		if err != nil {
			return nil, fmt.Errorf("ConfigMap kube-system/%s: %w", record, err)
		}
		if found != nil && !slices.ContainsFunc(all, func(o HalfDone) bool { return o.Operation == found.Operation }) {
			all = append(all, *found)
		}
	}
	slices.SortFunc(all, func(a, b HalfDone) int { return cmp.Compare(a.Operation, b.Operation) })
	return all, nil
}

// undo finds the order of an undo that nobody can stop any more.
func (h Host) undo() (*HalfDone, error) {
	_, o, ok, err := undo.Store{Root: cmp.Or(h.Root, node.DefaultRoot)}.Ordered()
	if err != nil || !ok || o.Stage == undo.Prepared {
		return nil, err
	}
	return &HalfDone{Undo, "the control planes are going back to where they were before an upgrade", "run 'sealift upgrade undo' on " + o.Leader}, nil
}

// authorities finds a rotation of CAs that this host knows of.
func (h Host) authorities() (*HalfDone, error) {
	s, ok, err := authority.Read(h.Rootfs)
	if err != nil || !ok {
		return nil, err
	}
	return &HalfDone{CAs, fmt.Sprintf("the cluster's CAs are being rotated (since %s)", s.ID), "'" + s.Next() + "'"}, nil
}

// The steps that end a change of an address, forward or back.
const (
	ReaddressEnd     = "readdress/ready"
	ReaddressBackEnd = "readdress/back"
	// ReaddressBegin is the step after which an address changes.
	ReaddressBegin = "readdress/keep"
)

// interrupted finds what the journal of this host has begun and not ended. It has only one at a time.
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
			if r.Step == restore.FirstStep && time.Since(r.Time) < restore.Resumes {
				found = &HalfDone{Restore, "a snapshot is being restored on this host", "run the 'sealift restore' or 'sealift upgrade undo' again that was interrupted"}
			} else if finished && r.Step == restore.LastStep {
				found = nil
			}
		}
	}
	return found, err
}

// upgrading reads the record of the newest upgrade. One that has changed no node yet is not half done.
func upgrading(data map[string]string) (*HalfDone, error) {
	var s struct{ From, To, Phase, Leader, Snapshot string }
	if err := json.Unmarshal([]byte(data["state.json"]), &s); err != nil {
		return nil, fmt.Errorf("%w; remove it to begin with a new upgrade", err)
	}
	if s.Phase == "finished" || s.Phase == "preparing" && s.Snapshot == "" {
		return nil, nil //nolint:nilnil // nothing is half done
	}
	return &HalfDone{Upgrade, fmt.Sprintf("an upgrade from Kubernetes %s to %s is not finished (at %s)", s.From, s.To, s.Phase),
		"run 'sealift upgrade' with the same bundle again, or 'sealift upgrade undo', on " + cmp.Or(s.Leader, "a control plane")}, nil
}

func rotating(data map[string]string) (*HalfDone, error) {
	return &HalfDone{CAs, fmt.Sprintf("the cluster's CAs are being rotated (since %s)", data["id"]), "run 'sealift certs rotate-ca' on " + data["leader"]}, nil
}

func encrypting(data map[string]string) (*HalfDone, error) {
	return &HalfDone{Keys, fmt.Sprintf("the cluster gets the new key %s for Secrets (begun by %s)", data["key"], data["leader"]),
		"run 'sealift certs rotate-encryption' on a control plane"}, nil
}

// moving reads the record of another load balancer. When every node has moved, what is left is to forget the old one, which waits for
// a person.
func moving(data map[string]string) (*HalfDone, error) {
	var r struct {
		From, To string
		Moved    bool
	}
	if err := json.Unmarshal([]byte(data["change"]), &r); err != nil {
		return nil, fmt.Errorf("it is no record of a change of the load balancer: %w; delete it, and run the command again", err)
	}
	if r.Moved {
		return nil, nil //nolint:nilnil // nothing is half done
	}
	return &HalfDone{LoadBalancer, fmt.Sprintf("the API is moving from the load balancer %s to %s", r.From, r.To),
		fmt.Sprintf("run 'sealift node load-balancer %s' on a control plane, or 'sealift node load-balancer %s' to take it back", r.To, r.From)}, nil
}
