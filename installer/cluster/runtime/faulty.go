package runtime

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/core/content"
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
	all = slices.DeleteFunc(all, func(one content.Status) bool { return now.Before(one.UpdatedAt.Add(faultyAge)) })
	if !slices.ContainsFunc(all, func(one content.Status) bool { return one.Total > 0 && one.Offset >= one.Total }) {
		return nil, nil
	}
	for _, one := range all {
		if err := store.Abort(ctx, one.Ref); err != nil && !errdefs.IsNotFound(err) {
			return dropped, fmt.Errorf("delete the transfer %s of containerd: %w", one.Ref, err)
		}
		dropped = append(dropped, one.Ref)
	}
	return dropped, nil
}
