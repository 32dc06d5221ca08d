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

// Serve runs in a pod. It runs the piece that the environment names, and stores its result, or the reason for its failure. What do
// returns is encoded as JSON.
func Serve(ctx context.Context, s store.Store, getenv func(string) string, do func(ctx context.Context, input json.RawMessage) (output any, err error)) error {
	f := files{s}
	d, index := getenv(planVariable), getenv(indexVariable)
	n, err := strconv.Atoi(index)
	if d == "" || err != nil {
		return fmt.Errorf("%s is %q and %s is %q: this command runs only in pods of an Indexed Job", planVariable, d, indexVariable, index)
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
	saved := result{Output: data, Job: getenv(jobVariable)}
	key := resultKey(pieces[n].digest)
	if err != nil {
		saved.Output, saved.Failure, key = nil, err.Error(), failureKey(pieces[n].digest)
	}
	ctx, cancel := outlasting(ctx, saveTime)
	defer cancel()
	return errors.Join(err, f.save(ctx, key, saved))
}

// saveTime is how long a pod that is being deleted may take to store the outcome of its piece.
const saveTime = 10 * time.Second

// outlasting returns a context that ends some time after ctx.
func outlasting(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(by, cancel) })
	return longer, func() {
		stop()
		cancel()
	}
}

// Program is the program that pods run. It is part of their inputs: with another one, pieces run again.
type Program struct {
	Sealift string `json:"sealift"` // version
	Image   string `json:"image"`
}

// Check refuses the program of a pod if it differs from the coordinator's. version is the pod's.
func (p Program) Check(version string) error {
	if version != p.Sealift {
		return fmt.Errorf("the image %s has sealift %s, and sealift %s made the Job; make an image of the same sealift", p.Image, version, p.Sealift)
	}
	return nil
}
