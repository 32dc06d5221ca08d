package runner

import (
	"context"
	"fmt"

	"github.com/sealift/sealift/testgrid/history"
	"github.com/sealift/sealift/testgrid/report"
)

// rememberedRuns is how many earlier runs a report knows.
const rememberedRuns = 50

// remember writes the store's data of earlier runs, for the pages.
func (r *runner) remember(ctx context.Context) error {
	if r.History == nil || r.Part != nil {
		return nil
	}
	runs, err := r.History.Runs(ctx, rememberedRuns)
	if err != nil {
		return err
	}
	return r.folder.SavePast(history.Past(runs))
}

// earlier returns the result of an earlier run for a job: here, or else on another machine with the same input.
func (r *runner) earlier(ctx context.Context, j job, digest string, bundled bool) (*report.Result, error) {
	here, err := r.folder.Load(j.test.ID, j.system, j.attempt)
	if err != nil || r.History == nil || !bundled || r.Again == AgainAll || here != nil && here.Digest == digest {
		return here, err
	}
	there, err := r.History.Load(ctx, digest, j.attempt, r.folder.Dir(j.test.ID, j.system, j.attempt))
	if there == nil || err != nil {
		return here, err
	}
	if there.Test != j.test.ID || there.System != j.system {
		return nil, fmt.Errorf("the store has a result of %s on %s in place of %s on %s; --again all replaces it", there.Test, there.System, j.test.ID, j.system)
	}
	return there, r.folder.Save(*there)
}

// shared reports whether a result is for other machines. One that depends on abilities of these hosts, or on leftovers of an earlier
// attempt, is not.
func shared(result report.Result) bool {
	return result.Bundle != "" && result.Verdict != report.Skipped && !result.Resumed
}

// share stores a result for other machines.
func (r *runner) share(ctx context.Context, result report.Result) error {
	if r.History == nil || !shared(result) {
		return nil
	}
	return r.History.Save(ctx, result, r.folder.Dir(result.Test, result.System, result.Attempt))
}
