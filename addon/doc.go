// Package addon records who owns each add-on of a cluster, by which policy it is applied, and hands it over.
//
// There is one record for each add-on: a ConfigMap in kube-system that kubectl can read. Only its owner applies the add-on.
// Everybody else who wants to must be given it first:
//
//	record, err := records.Claim(ctx, "flannel", ownership)              // before applying; fails if another owns it
//	record, err = records.SetApplied(ctx, "flannel", owner, applied)     // after applying
//	record, err = records.Adopt(ctx, "flannel", from, ownership, move)   // takes it from another owner
//	record, err = records.GiveBack(ctx, "flannel", owner, move)          // returns it to its former owner
//
// A handover is recorded before the first object moves and again after the last one has moved. If it is interrupted, the
// same call finishes it. Each write is bound to the resourceVersion that was read, so two owners cannot both win.
package addon
