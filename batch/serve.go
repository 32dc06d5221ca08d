package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sealift/sealift/store"
)

// The environment of a pod. Kubernetes sets the index.
const (
	planVariable  = "SEALIFT_BATCH_PLAN"
	jobVariable   = "SEALIFT_BATCH_JOB" // the UID of the Job
	indexVariable = "JOB_COMPLETION_INDEX"
)

// FilesDir is where the first container of a pod finds Options.Files.
const FilesDir = "/etc/sealift/batch"

// Serve runs in a pod. It does the piece that the environment names, and stores its result, or else why it failed. What do returns is
// encoded as JSON.
func Serve(ctx context.Context, s store.Store, getenv func(string) string, do func(ctx context.Context, input json.RawMessage) (output any, err error)) error {
	f := files{s}
	d, index := getenv(planVariable), getenv(indexVariable)
	n, err := strconv.Atoi(index)
	if d == "" || err != nil {
		return fmt.Errorf("%s is %q and %s is %q: this runs in the pods of an Indexed Job only", planVariable, d, indexVariable, index)
	}
	pieces, err := f.loadPlan(ctx, d)
	if err != nil {
		return err
	}
	if n < 0 || n >= len(pieces) {
		return fmt.Errorf("%s is %d, but the batch has %d pieces", indexVariable, n, len(pieces))
	}
	output, err := do(ctx, pieces[n].input)
	var data []byte
	if err == nil {
		data, err = json.Marshal(output)
	}
	if err == nil {
		return f.save(ctx, resultKey(pieces[n].digest), result{Output: data})
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failureTime)
	defer cancel()
	return errors.Join(err, f.save(ctx, failureKey(pieces[n].digest), result{Failure: err.Error(), Job: getenv(jobVariable)}))
}

// failureTime is the timeout for storing why a piece failed, also in a pod that is being ended.
const failureTime = 10 * time.Second
