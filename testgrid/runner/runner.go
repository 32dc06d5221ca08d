// Package runner runs tests of the grid. It takes bare machines of any kind, installs a bundle on them, joins them, injects the
// failures of the test, and checks its expectations. Each result is on the disk before the next test begins, so a killed run can
// be resumed.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sealift/sealift/internal/trust"
	"github.com/sealift/sealift/testgrid/gridspec"
	"github.com/sealift/sealift/testgrid/history"
	"github.com/sealift/sealift/testgrid/machine"
	"github.com/sealift/sealift/testgrid/report"
)

// Options select the tests and the machines.
type Options struct {
	Files   []*gridspec.File
	Hosts   *machine.Hosts
	Systems []string // of HOSTS.yaml; default all
	Tests   []string // IDs; default all
	Out     string   // folder of the report
	Sealift string   // the program that makes bundles
	Store   string   // where the packages are, as for 'sealift bundle --store'
	// Server is the URL of a 'sealift serve' with the packages of the store. Tests without airgap install from it. "" installs all
	// tests from bundles.
	Server string
	CAs    trust.CAs // that may have signed the server's certificate, in addition to those of this machine
	Repeat int       // attempts at each test; default 1
	// Part, if not nil, makes this run do one attempt of a larger run elsewhere, which keeps the history of runs.
	Part *Part
	// Remote, if not nil, does the attempts. It needs a History, which transports the logs.
	Remote Remote
	// KeepFailed keeps the machines of failed tests.
	KeepFailed bool
	// Resume reuses the kept machines of failed tests, and continues after the last passed step.
	Resume bool
	// Again runs tests that an earlier run has finished: "" none, "failed" those that failed, "all" all of them.
	Again string
	// History, if not nil, shares results with earlier runs and other machines.
	History  *history.History
	Progress func(line string) // one line per event
}

// The values of Options.Again.
const (
	AgainFailed = "failed"
	AgainAll    = "all"
)

// workers is the most tests that run or wait for machines at one time.
const workers = 64

// reportInterval is the least time between two reports while tests run.
const reportInterval = 5 * time.Second

// job is one attempt at one test on one system.
type job struct {
	test    gridspec.Test
	file    string
	system  string
	attempt int
}

type runner struct {
	Options
	folder  report.Folder
	bundles bundles

	// unselected are results of earlier runs outside this run's selection. The report also shows them.
	unselected []report.Result

	mu       sync.Mutex
	results  []report.Result
	reported time.Time
}

// Run runs the tests and returns all results, including those of an earlier run into the same folder. The error is about the
// run, not about tests that fail. If ctx ends, no machine is left, and the next run resumes.
func Run(ctx context.Context, o Options) ([]report.Cell, error) {
	r := &runner{Options: o, folder: report.Folder{Path: o.Out}}
	if r.Progress == nil {
		r.Progress = func(string) {}
	}
	jobs, err := r.jobs()
	if err != nil {
		return nil, err
	}
	unlock, err := r.folder.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	began := time.Now()
	if err := errors.Join(r.setAside(), r.plan(jobs), r.remember(ctx), r.clean(ctx)); err != nil {
		return nil, err
	}
	do := r.local
	if r.Remote != nil {
		do = r.remote
	}
	err = errors.Join(do(ctx, jobs), r.write(true))
	r.unselected = nil // they do not decide how this run ends
	cells := report.Cells(r.ordered())
	if err == nil && r.History != nil && r.Part == nil {
		err = r.History.Add(ctx, began, cells)
	}
	return cells, err
}

// plan writes down the jobs for those who watch.
func (r *runner) plan(jobs []job) error {
	planned := make([]report.Result, 0, len(jobs))
	for _, j := range jobs {
		planned = append(planned, report.Result{Test: j.test.ID, Name: j.test.Name, System: j.system, Attempt: j.attempt})
	}
	return r.folder.Plan(planned)
}

// local does the jobs on machines that this program takes.
func (r *runner) local(ctx context.Context, jobs []job) error {
	r.bundles = bundles{sealift: r.Sealift, store: r.Store, cas: r.CAs.File(), dir: filepath.Join(r.Out, ".bundles")}
	if err := r.bundles.open(); err != nil {
		return err
	}
	return errors.Join(r.all(ctx, jobs), r.bundles.close())
}

// clean removes leftovers of earlier runs, except what is resumed: a user's program does not know the difference.
func (r *runner) clean(ctx context.Context) error {
	if r.Resume || r.Remote != nil {
		return nil
	}
	for _, system := range r.systems() {
		limited, cancel := context.WithTimeout(ctx, cleanTimeout)
		err := r.Hosts.Kind(system).Clean(limited, r.owner())
		cancel()
		if err != nil {
			return fmt.Errorf("clean up after earlier runs on %s: %w", system, err)
		}
	}
	return nil
}

func (r *runner) systems() []string {
	if len(r.Systems) > 0 {
		return r.Systems
	}
	return r.Hosts.Systems()
}

// wanted reports whether the options name a test.
func (r *runner) wanted(test string) bool { return len(r.Tests) == 0 || slices.Contains(r.Tests, test) }

// setAside loads what earlier runs into the folder have found about tests and systems that the options leave out.
func (r *runner) setAside() error {
	for _, f := range r.Files {
		for _, t := range f.Tests {
			for _, system := range r.Hosts.Systems() {
				if r.wanted(t.ID) && slices.Contains(r.systems(), system) {
					continue
				}
				for attempt := 1; ; attempt++ {
					result, err := r.folder.Load(t.ID, system, attempt)
					if err != nil {
						return err
					}
					if result == nil {
						break
					}
					r.unselected = append(r.unselected, *result)
				}
			}
		}
	}
	return nil
}

// jobs lists everything to do: all tests once on each system, then all again for further attempts.
func (r *runner) jobs() ([]job, error) {
	for _, system := range r.systems() {
		if r.Hosts.Kind(system) == nil {
			return nil, fmt.Errorf("HOSTS.yaml has no system %q, only %q", system, r.Hosts.Systems())
		}
	}
	var jobs []job
	found, owners := map[string]bool{}, map[string]string{}
	first, last := 1, max(1, r.Repeat)
	if r.Part != nil {
		first, last = r.Part.Attempt, r.Part.Attempt
	}
	for attempt := first; attempt <= last; attempt++ {
		for _, f := range r.Files {
			if len(f.Systems) > 0 {
				return nil, fmt.Errorf("%s is a list of systems, not of tests; HOSTS.yaml says where tests run", f.Name)
			}
			for _, t := range f.Tests {
				if owner := cmp.Or(owners[t.ID], f.Name); owner != f.Name {
					return nil, fmt.Errorf("%s and %s both have a test %q; run them into two folders, or rename one", owner, f.Name, t.ID)
				}
				owners[t.ID] = f.Name
				if !r.wanted(t.ID) {
					continue
				}
				found[t.ID] = true
				for _, system := range r.systems() {
					jobs = append(jobs, job{test: t, file: f.Name, system: system, attempt: attempt})
				}
			}
		}
	}
	for _, id := range r.Tests {
		if !found[id] {
			return nil, fmt.Errorf("there is no test %q", id)
		}
	}
	return jobs, nil
}

// all does the jobs side by side. A kind of machine makes a test wait until there is room for it.
func (r *runner) all(ctx context.Context, jobs []job) error {
	var group sync.WaitGroup
	errs := make(chan error, len(jobs))
	slots := make(chan struct{}, workers)
	for _, j := range jobs {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		group.Go(func() {
			defer func() { <-slots }()
			if err := r.one(ctx, j); err != nil {
				errs <- err
			}
		})
	}
	group.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(append(all, ctx.Err())...)
}

// one does a job, unless an earlier run has done it with the same input.
func (r *runner) one(ctx context.Context, j job) error {
	label := fmt.Sprintf("%s on %s", j.test.ID, j.system)
	if max(1, r.Repeat) > 1 {
		label += fmt.Sprintf(", attempt %d", j.attempt)
	}
	b, newer, err := r.bundlesFor(ctx, j)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the next run does the job
	}
	digest := r.digest(j, b, newer)
	earlier, loadErr := r.earlier(ctx, j, digest, b != nil)
	if loadErr != nil {
		return loadErr
	}
	resumed := r.Resume && earlier != nil && earlier.Verdict == report.Failed && len(earlier.Machines) > 0
	if earlier != nil && earlier.Digest == digest && r.stands(earlier.Verdict) && !resumed {
		r.Progress(label + ": " + string(earlier.Verdict) + " before, and nothing has changed")
		return r.add(*earlier)
	}
	c := newCell(r, j, b, newer, digest)
	if resumed {
		c.earlier = earlier
	} else if err := os.RemoveAll(c.dir); err != nil {
		return err
	}
	if reason := j.unable(); reason != "" {
		c.skip(reason)
	} else if err != nil {
		c.fail(err)
	} else {
		r.Progress(label + ": runs")
		c.run(ctx)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the next run repeats it
	}
	result := c.finish()
	r.Progress(fmt.Sprintf("%s: %s in %s %s", label, result.Verdict, result.Took, result.Reason))
	return errors.Join(r.folder.Save(result), r.share(ctx, result), r.add(result))
}

// stands reports whether a verdict of an earlier run is kept. A skipped test is tried again, because other hosts may be able to run
// it.
func (r *runner) stands(v report.Verdict) bool {
	switch {
	case v == report.Skipped || r.Again == AgainAll:
		return false
	case r.Again == AgainFailed:
		return v != report.Failed
	}
	return true
}

func (r *runner) add(result report.Result) error {
	r.mu.Lock()
	r.results = append(r.results, result)
	r.mu.Unlock()
	return r.write(false)
}

// write writes the report. While tests run, it does so now and then.
func (r *runner) write(last bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !last && time.Since(r.reported) < reportInterval {
		return nil
	}
	r.reported = time.Now()
	return r.folder.Write(r.ordered())
}

// ordered returns all results in the order of the files. They are in the order in which tests end.
func (r *runner) ordered() []report.Result {
	order := map[string]int{}
	for _, f := range r.Files {
		for _, t := range f.Tests {
			order[t.ID] = len(order)
		}
	}
	all := slices.Concat(r.results, r.unselected)
	slices.SortStableFunc(all, func(a, b report.Result) int { return cmp.Compare(order[a.Test], order[b.Test]) })
	return all
}
