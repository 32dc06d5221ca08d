package runner

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sealift/sealift/testgrid/report"
)

// Attempt names one attempt at a test on a system.
type Attempt struct {
	File   string // of the test
	Test   string // ID
	System string
	Number int // from 1
}

// Remote does attempts on other machines.
type Remote interface {
	// Do does the attempts and calls ended for each. Calls do not overlap. It may reuse results of an earlier run, if stands says so.
	// The logs of its work are in the history.
	Do(ctx context.Context, attempts []Attempt, stands func(report.Verdict) bool, ended func(report.Result)) error
}

// Part is one attempt of a larger run.
type Part struct {
	Attempt int
	Owner   string // of the machines
}

// owner is the owner of the machines, or "" if all machines belong to this run.
func (r *runner) owner() string {
	if r.Part == nil {
		return ""
	}
	return r.Part.Owner
}

// remote lets other machines do the jobs.
func (r *runner) remote(ctx context.Context, jobs []job) error {
	var attempts []Attempt
	var errs []error
	for _, j := range jobs {
		if reason := j.unable(); reason != "" {
			c := newCell(r, j, nil, nil, r.digest(j, nil, nil))
			c.skip(reason)
			errs = append(errs, r.gather(ctx, c.finish()))
			continue
		}
		attempts = append(attempts, Attempt{File: j.file, Test: j.test.ID, System: j.system, Number: j.attempt})
	}
	if err := errors.Join(errs...); err != nil || len(attempts) == 0 {
		return err
	}
	err := r.Remote.Do(ctx, attempts, r.stands, func(result report.Result) {
		if err := r.gather(ctx, result); err != nil {
			errs = append(errs, err)
		}
	})
	return errors.Join(append(errs, err)...)
}

// gather copies a result of another machine into the report, with its logs.
func (r *runner) gather(ctx context.Context, result report.Result) error {
	dir := r.folder.Dir(result.Test, result.System, result.Attempt)
	here, err := r.folder.Load(result.Test, result.System, result.Attempt)
	if err != nil {
		return err
	}
	verb := "before, and nothing has changed"
	if here == nil || !here.Started.Equal(result.Started) || here.Digest != result.Digest {
		verb = "in " + result.Took.String()
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if shared(result) {
			if there, err := r.History.Load(ctx, result.Digest, result.Attempt, dir); err != nil {
				return err
			} else if there == nil {
				result.Warnings = append(result.Warnings, "its logs are no longer in the store; --again all makes new ones")
			}
		}
	}
	r.Progress(fmt.Sprintf("%s on %s: %s %s %s", result.Test, result.System, result.Verdict, verb, result.Reason))
	return errors.Join(r.folder.Save(result), r.add(result))
}
