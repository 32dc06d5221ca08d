package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
)

// faultyAge is how long a complete transfer is left alone: containerd may be about to compare it with its digest.
const faultyAge = 2 * time.Minute

// DropFaulty deletes transfers that containerd has received completely, and not taken into its content store: their content has another
// digest than their name. containerd itself would compare such a transfer at each pull, and fetch nothing. It returns their references.
func (r *Runtime) DropFaulty(ctx context.Context, now time.Time) (dropped []string, err error) {
	store := r.client.ContentStore()
	all, err := store.ListStatuses(ctx)
	if err != nil {
		return nil, fmt.Errorf("list transfers of containerd: %w", err)
	}
	for _, one := range all {
		if one.Total == 0 || one.Offset < one.Total || now.Before(one.UpdatedAt.Add(faultyAge)) {
			continue
		}
		if err := store.Abort(ctx, one.Ref); err != nil && !errdefs.IsNotFound(err) {
			return dropped, fmt.Errorf("delete the transfer %s of containerd: %w", one.Ref, err)
		}
		dropped = append(dropped, one.Ref)
	}
	return dropped, nil
}
