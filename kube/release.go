package kube

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Release removes members from a set: they stay in the cluster without an owner, and no later Apply or Delete of the set
// touches them. which selects the members.
func (e *Engine) Release(ctx context.Context, set Set, which func(Ref) bool) (Result, error) {
	set, err := set.withDefaults()
	if err != nil {
		return Result{}, err
	}
	result := Result{Set: set, Entries: []Entry{}}
	ctx, cancel := context.WithTimeout(ctx, DefaultApplyTimeout)
	defer cancel()
	run := e.newRun(set, nil, ApplyOptions{})
	if err := run.readMembers(ctx); err != nil {
		return result, fmt.Errorf("release objects of set %s: %w", set, err)
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{labelPartOf: nil}}})
	if err != nil {
		return result, err
	}
	for _, m := range run.formerMembers(nil) {
		if !which(m.ref) {
			continue
		}
		entry := Entry{Object: m.ref, Action: Kept, Message: "it belongs to no set any more"}
		err := e.retry(ctx, m.ref, run.passing, func(ctx context.Context) error {
			_, err := e.metaFor(m.res, m.ref.Namespace).Patch(ctx, m.ref.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: e.manager})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
		if err != nil {
			entry = failed(m.ref, err)
		}
		result.Entries = append(result.Entries, entry)
	}
	if err := result.Err(); err != nil {
		return result, fmt.Errorf("release objects of set %s: %w", set, err)
	}
	return result, nil
}
