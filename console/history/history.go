// Package history measures what the overview of the console draws, and keeps it for an hour: the size of etcd's database on this node, and how
// long the Kubernetes API of this node takes to answer.
//
// It measures with one look at a file and one request without credentials, so it works in every state of the cluster. What it keeps lies in one
// small file, which survives a restart of the console.
package history

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/sealift/sealift/console/jsonfile"
	"github.com/sealift/sealift/internal/poll"
)

const (
	// Every is the time between samples.
	Every = 30 * time.Second
	// Span is how long a sample is kept.
	Span = time.Hour
	// maxSamples is the maximum number of samples, also when a clock is set back.
	maxSamples = int(Span/Every) + 1
)

// Sample is what was measured at a time.
type Sample struct {
	Time time.Time `json:"time"`
	Etcd int64     `json:"etcd,omitempty"` // bytes of the database's file; 0 if this node has none
	API  float64   `json:"api,omitempty"`  // milliseconds until the answer; 0 if there was none
}

// Recorder takes samples. Its methods may be called from several goroutines.
type Recorder struct {
	File    string // where samples lie
	Measure func(context.Context) Sample
	Log     *slog.Logger

	mu      sync.Mutex
	samples []Sample // the newest last
}

// Run takes samples until ctx ends. It begins with those of the file.
func (r *Recorder) Run(ctx context.Context) {
	var kept []Sample
	if err := jsonfile.Read(r.File, &kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Log.Warn("the graphs of the overview start empty", "error", err) // a damaged file is replaced
	}
	r.mu.Lock()
	r.samples = kept
	r.mu.Unlock()
	failed := false
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		sample := r.Measure(ctx)
		if ctx.Err() != nil {
			return Every
		}
		err := jsonfile.Write(r.File, r.add(sample))
		if err != nil && !failed {
			r.Log.Warn("the graphs of the overview are lost when the console restarts", "error", err)
		}
		failed = err != nil
		return Every
	})
}

// add adds a sample, and drops those that are older than an hour, or of the future.
func (r *Recorder) add(s Sample) []Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	var kept []Sample
	for _, old := range r.samples {
		if age := s.Time.Sub(old.Time); age > 0 && age <= Span {
			kept = append(kept, old)
		}
	}
	kept = append(kept, s)
	r.samples = kept[max(0, len(kept)-maxSamples):]
	return r.samples
}

// Samples returns those of the last hour, the newest last.
func (r *Recorder) Samples() []Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.samples // add makes another slice
}
