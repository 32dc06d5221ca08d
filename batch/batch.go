// Package batch runs many independent pieces of work on a cluster, as one Indexed Job. Scheduling, retries, limits and clean-up
// are Kubernetes'.
//
// The coordinator, which calls Run, writes the input of every piece into a store, and watches the Job alone, not its pods. Each pod
// calls Serve: it reads its input and writes its result into the store. A killed coordinator resumes when it runs again: the name
// of the Job follows from its input, and annotations name its owner. A foreign Job is left alone.
//
//	batch/plans/DIGEST            the inputs of a Job, one JSON document on each line; named by its sha256
//	batch/results/DIGEST.json     what a piece has put out; named by the sha256 of its input
//	batch/failures/DIGEST.json    why the last try of a piece failed
//
// The package never knows what the work is.
package batch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/store"
)

// Options say where and how pieces of work run.
type Options struct {
	Name      string // first part of the Job's name, such as build
	Namespace string
	// Pod is the template of the pods; each runs one piece. Its first container does the work: it has a program that calls Serve.
	Pod corev1.PodSpec
	// Files are what the first container finds in FilesDir. They are in a Secret that the garbage collector removes with the Job.
	Files       map[string][]byte
	Parallelism int           // maximum number of pieces at once; 0 means all
	Retries     int           // number of retries of a failed piece. The loss of a pod with its node does not count
	PieceTime   time.Duration // the longest that one try may take; default 1 hour
	Time        time.Duration // the longest that the Job may take; default 24 hours
	Keep        time.Duration // how long a finished Job stays if no coordinator removes it; default 1 hour
	Queue       string        // the LocalQueue of Kueue that admits the Job; "" means none
	// Current decides whether a result of an earlier run still counts; nil means that it does.
	Current func(output json.RawMessage) bool
	// Started is called with the number of pieces that the Job of this run has.
	Started func(job kube.Ref, pieces int)
	// Finished is called for each piece as it ends, with its index among the inputs. Calls do not overlap.
	Finished func(place int, o Outcome)
	Log      *slog.Logger // nil logs nothing
}

// Outcome is the result of one piece.
type Outcome struct {
	Output  json.RawMessage // of a piece that succeeded
	Failure string          // why it failed, for people
	Earlier bool            // the output comes from an earlier run
}

// ended reports whether the piece has ended.
func (o Outcome) ended() bool { return o.Output != nil || o.Failure != "" }

// MaxPieces limits the pieces of one Job: with a limit of retries for each index, Kubernetes allows 100,000.
const MaxPieces = 100_000

// Run runs a piece of work for each input and returns how each ended, in the order of the inputs. Inputs are JSON documents, and
// equal ones are one piece. A piece whose result is in the store does not run again. When Run returns, it has removed its Job, even
// after an error. Run returns an error if it could not learn how every piece ended, but not because a piece failed.
func Run(ctx context.Context, cluster *kube.Cluster, s store.Store, inputs []json.RawMessage, o Options) ([]Outcome, error) {
	o.PieceTime, o.Time, o.Keep = cmp.Or(o.PieceTime, time.Hour), cmp.Or(o.Time, 24*time.Hour), cmp.Or(o.Keep, time.Hour)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	r := &run{Options: o, cluster: cluster, files: files{s}, coordinator: rand.Text(), outcomes: make([]Outcome, len(inputs)), places: map[string][]int{}}
	for place, input := range inputs {
		line, err := compact(input)
		if err != nil {
			return nil, fmt.Errorf("input %d of the batch %s: %w", place+1, o.Name, err)
		}
		d := sha256hex.Of(line)
		if r.places[d] == nil {
			r.pieces = append(r.pieces, piece{digest: d, input: line})
		}
		r.places[d] = append(r.places[d], place)
	}
	if len(r.pieces) > MaxPieces {
		return nil, fmt.Errorf("the batch %s has %d pieces; a Job has at most %d", o.Name, len(r.pieces), MaxPieces)
	}
	if err := r.name(); err != nil {
		return nil, err
	}
	if err := r.earlier(ctx, ""); err != nil {
		return r.outcomes, err
	}
	missing := r.missing()
	if len(missing) == 0 {
		return r.outcomes, r.removeLeft(ctx)
	}
	for ; len(missing) > 0; missing = r.missing() {
		if err := r.round(ctx, missing); err != nil {
			return r.outcomes, err
		}
	}
	return r.outcomes, nil
}

// run is one call of Run.
type run struct {
	Options

	cluster *kube.Cluster
	files   files
	job     kube.Ref
	// id is the digest of all that goes into the Job but the order of the inputs. Coordinators with the same id share the Job.
	id          string
	coordinator string // names this call of Run
	requested   bool   // whether the API server was asked to make the Job
	pieces      []piece
	places      map[string][]int // of the inputs with this digest
	outcomes    []Outcome
}

// piece is one piece of work.
type piece struct {
	digest string // of its input
	input  []byte
}

// compact returns a JSON document as one line.
func compact(input json.RawMessage) ([]byte, error) {
	var line bytes.Buffer
	err := json.Compact(&line, input)
	return line.Bytes(), err
}

// nameDigits is how much of the digest is in the name of a Job. Pods add an index and a suffix, and 63 characters are all.
const nameDigits = 12

// name derives the Job's name from all that goes into it: the order of the inputs does not matter.
func (r *run) name() error {
	var all []string
	for _, p := range r.pieces {
		all = append(all, p.digest)
	}
	slices.Sort(all)
	data, err := json.Marshal(struct {
		Pieces []string
		Pod    corev1.PodSpec
		Files  map[string][]byte
	}{all, r.Pod, r.Files})
	if err != nil {
		return err
	}
	r.id = sha256hex.Of(data)
	r.job = kube.Ref{Group: "batch", Version: "v1", Kind: "Job", Namespace: r.Namespace, Name: r.Options.Name + "-" + r.id[:nameDigits]}
	return nil
}

// earlier reuses results that are in the store. Results stored by the current Job count regardless of Current; job is "" without a Job.
func (r *run) earlier(ctx context.Context, job types.UID) error {
	there, err := r.files.results(ctx)
	if err != nil {
		return err
	}
	var known []string
	for _, p := range r.missing() {
		if there[p.digest] {
			known = append(known, p.digest)
		}
	}
	results, err := r.files.read(ctx, known)
	for _, d := range known {
		found, ok := results[d]
		own := job != "" && found.Job == string(job)
		if ok && (own || r.Current == nil || r.Current(found.Output)) {
			r.end(d, Outcome{Output: found.Output, Earlier: !own})
		}
	}
	return err
}

// end records how a piece ended.
func (r *run) end(digest string, o Outcome) {
	for _, place := range r.places[digest] {
		r.outcomes[place] = o
		if r.Finished != nil {
			r.Finished(place, o)
		}
	}
}

// missing lists the unfinished pieces.
func (r *run) missing() []piece {
	return slices.DeleteFunc(slices.Clone(r.pieces), func(p piece) bool { return r.outcomes[r.places[p.digest][0]].ended() })
}

// round lets a Job run the missing pieces. Another coordinator, or this one before it was killed, may have created the Job for
// other pieces.
func (r *run) round(ctx context.Context, missing []piece) error {
	job, plan, err := r.ensure(ctx, missing)
	switch {
	case job == nil:
		return errors.Join(err, r.removeMade(ctx))
	case err == nil:
		if r.Started != nil {
			r.Started(r.job, len(plan))
		}
		err = r.follow(ctx, job, plan)
	}
	return errors.Join(err, r.remove(ctx, job.UID))
}

// atOnce is the Job's parallelism.
func (r *run) atOnce(pieces int) int32 {
	if r.Parallelism > 0 {
		pieces = min(pieces, r.Parallelism)
	}
	return int32(min(pieces, math.MaxInt32))
}
