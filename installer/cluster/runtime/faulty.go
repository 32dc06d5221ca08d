package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
)

// faultyAge is how long a transfer without progress is left alone: containerd may be about to compare it with its digest.
const faultyAge = 2 * time.Minute

// DropFaulty looks for transfers that containerd has received completely, and not taken into its content store: their content has another
// digest than their name. containerd itself would compare such a transfer at each pull, and fetch nothing. If there is one, DropFaulty deletes
// all transfers that have stopped, because others may have a part from the same server. It returns their references.
func (r *Runtime) DropFaulty(ctx context.Context, now time.Time) (dropped []string, err error) {
	store := r.client.ContentStore()
	all, err := store.ListStatuses(ctx)
	if err != nil {
		return nil, fmt.Errorf("list transfers of containerd: %w", err)
	}
	faulty := false
	var stopped []string
	for n := range all {
		if one := &all[n]; !now.Before(one.UpdatedAt.Add(faultyAge)) {
			stopped = append(stopped, one.Ref)
			faulty = faulty || one.Total > 0 && one.Offset >= one.Total
		}
	}
	if !faulty {
		return nil, nil
	}
	for _, ref := range stopped {
		if err := store.Abort(ctx, ref); err != nil && !errdefs.IsNotFound(err) {
			return dropped, fmt.Errorf("delete the transfer %s of containerd: %w", ref, err)
		}
		dropped = append(dropped, ref)
	}
	return dropped, nil
}
