package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/store"
)

// The folders of a batch in the store.
const (
	plansDir    = "batch/plans/"
	resultsDir  = "batch/results/"
	failuresDir = "batch/failures/"
)

const (
	// maxDocument is the most that is read of a plan, of a result or of a failure, in bytes.
	maxDocument = 256 << 20
	// readers is how many results are read at once.
	readers = 16
)

// files are the documents of batches in a store.
type files struct{ store.Store }

// result is a document in results or failures.
type result struct {
	Output  json.RawMessage `json:"output,omitempty"`
	Failure string          `json:"failure,omitempty"`
	Job     string          `json:"job,omitempty"` // the UID of the Job whose pod it was
}

func resultKey(digest string) string  { return resultsDir + digest + ".json" }
func failureKey(digest string) string { return failuresDir + digest + ".json" }

// plan lists the pieces of a Job; an index of the Job is an index of the list.
type plan []piece

// savePlan stores the inputs of a Job and returns their digest.
func (f files) savePlan(ctx context.Context, pieces plan) (string, error) {
	var lines bytes.Buffer
	for _, p := range pieces {
		lines.Write(append(p.input, '\n'))
	}
	d := sha256hex.Of(lines.Bytes())
	if _, err := f.Put(ctx, plansDir+d, store.Bytes(lines.Bytes())); err != nil {
		return "", fmt.Errorf("store the inputs of the batch: %w", err)
	}
	return d, nil
}

// loadPlan reads the inputs of a Job, and compares them with their digest.
func (f files) loadPlan(ctx context.Context, d string) (plan, error) {
	data, err := f.document(ctx, plansDir+d)
	if err != nil {
		return nil, fmt.Errorf("read the inputs of the batch: %w", err)
	}
	if got := sha256hex.Of(data); got != d {
		return nil, fmt.Errorf("the inputs of the batch have the digest %s in the store, not %s", got, d)
	}
	var pieces plan
	for line := range bytes.Lines(data) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		pieces = append(pieces, piece{digest: sha256hex.Of(line), input: line})
	}
	return pieces, nil
}

func (f files) document(ctx context.Context, key string) ([]byte, error) {
	value, err := f.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	defer value.Close()
	if value.Size() > maxDocument {
		return nil, fmt.Errorf("%s has %d bytes, which is too large", key, value.Size())
	}
	return io.ReadAll(io.NewSectionReader(value, 0, value.Size()))
}

// results returns the digests of all inputs that have a result.
func (f files) results(ctx context.Context) (map[string]bool, error) {
	list, err := f.List(ctx, resultsDir)
	if err != nil {
		return nil, fmt.Errorf("list earlier results: %w", err)
	}
	there := make(map[string]bool, len(list))
	for _, info := range list {
		there[strings.TrimSuffix(strings.TrimPrefix(info.Key, resultsDir), ".json")] = true
	}
	return there, nil
}

// read returns the results of pieces that have succeeded. Unreadable results are omitted.
func (f files) read(ctx context.Context, digests []string) (map[string]result, error) {
	var mu sync.Mutex
	found := make(map[string]result, len(digests))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for _, d := range digests {
		group.Go(func() error {
			r, err := f.one(ctx, resultKey(d))
			if err != nil || r.Output == nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			found[d] = r
			return nil
		})
	}
	return found, group.Wait()
}

// one reads a result or a failure. It is empty if the file is missing or not JSON.
func (f files) one(ctx context.Context, key string) (r result, err error) {
	data, err := f.document(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read %s: %w", key, err)
	}
	if json.Unmarshal(data, &r) != nil {
		return result{}, nil //nolint:nilerr // half a record is none
	}
	return r, nil
}

func (f files) save(ctx context.Context, key string, r result) error {
	data, err := json.Marshal(r)
	if err == nil {
		_, err = f.Put(ctx, key, store.Bytes(data))
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", key, err)
	}
	return nil
}
