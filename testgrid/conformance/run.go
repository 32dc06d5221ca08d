// Package conformance runs Kubernetes' own conformance tests against a cluster, and writes the report of the test grid.
//
// Each test runs in a separate process. So a test that crashes or hangs affects no other, each result is on disk as soon as its
// test has ended, and a killed run resumes where it was. Nothing is fetched: the images of the tests have to be on the nodes, or
// in a registry that the nodes reach.
package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/testgrid/report"
)

// Quick selects the one test of sonobuoy's quick mode, which kURL runs: a pod is started and deleted.
const Quick = "Pods should be submitted and removed"

// Cluster is the tested cluster.
type Cluster struct {
	ID      string // differs for every cluster
	Version string // of its API server, such as v1.36.3
}

// Options select what to run.
type Options struct {
	Suite    Suite
	Cluster  Cluster
	Focus    *regexp.Regexp // run only tests with such a name; nil for all
	Skip     *regexp.Regexp // but none of these; nil for none
	Out      string         // folder of the report
	Timeout  time.Duration  // of each test; default DefaultTimeout
	Parallel int            // how many tests run at one time; default 1. A serial test runs alone
	// Again runs tests that an earlier run has finished: "" none, AgainFailed those that failed, AgainAll all of them.
	Again    string
	Progress func(line string) // one line per event
}

// The values of Options.Again.
const (
	AgainFailed = "failed"
	AgainAll    = "all"
)

// DefaultTimeout is more than the slowest conformance test takes.
const DefaultTimeout = 30 * time.Minute

// reportInterval is the least time between two reports while tests run.
const reportInterval = 5 * time.Second

// logName is the file with e2e.test's output for a test.
const logName = "e2e.log"

type runner struct {
	Options
	folder  report.Folder
	version string // of the tests
	all     int    // conformance tests of that release

	// unselected are results of earlier runs outside this run's selection. The report also shows them.
	unselected []report.Result

	mu       sync.Mutex
	results  []report.Result
	at       map[string]int // index of each test's result, by its name
	reported time.Time
}

// Choose selects the tests that a run with the options would run.
func (o Options) Choose(all []string) (chosen []string, err error) {
	for _, name := range all {
		if (o.Focus == nil || o.Focus.MatchString(name)) && (o.Skip == nil || !o.Skip.MatchString(name)) {
			chosen = append(chosen, name)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no conformance test of %d is selected; change --focus or --skip", len(all))
	}
	return chosen, nil
}

// Run runs the tests and returns all results, including those of an earlier run into the same folder. The error is about the run,
// not about tests that fail.
func Run(ctx context.Context, o Options) ([]report.Cell, error) {
	o.Timeout, o.Parallel = cmp.Or(o.Timeout, DefaultTimeout), max(1, o.Parallel)
	r := &runner{Options: o, folder: report.Folder{Path: o.Out}, at: map[string]int{}}
	if r.Progress == nil {
		r.Progress = func(string) {}
	}
	var err error
	if r.version, err = r.Suite.Version(ctx); err != nil {
		return nil, err
	}
	if minor(r.version) != minor(r.Cluster.Version) {
		return nil, fmt.Errorf("the tests are for Kubernetes %s, but the cluster runs %s; use the e2e.test of %s", r.version, r.Cluster.Version, r.Cluster.Version)
	}
	all, err := r.Suite.Tests(ctx)
	if err != nil {
		return nil, err
	}
	r.all = len(all)
	chosen, err := r.Choose(all)
	if err != nil {
		return nil, err
	}
	unlock, err := r.folder.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	todo, err := r.begin(all, chosen)
	if err == nil {
		err = errors.Join(r.tests(ctx, todo), r.write(true))
	}
	return report.Cells(r.results), err
}

// minor is the part of a version that tests and cluster must share, such as v1.36.
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// digest covers everything that decides whether a test has to run again.
func (r *runner) digest(name string) string {
	return "sha256:" + sha256hex.Of(strings.Join([]string{r.Cluster.ID, r.Cluster.Version, r.version, r.Suite.Repositories, strings.Join(r.Suite.Arguments, " "), name}, "\n"))
}

// begin reads the results of earlier runs, and writes a report in which the other tests wait. It returns their names.
func (r *runner) begin(all, chosen []string) (todo []string, err error) {
	for _, name := range all {
		planned := report.Result{Test: testID(name), Name: name, System: r.system(), Attempt: 1, Verdict: report.Waiting, Digest: r.digest(name)}
		earlier, err := r.folder.Load(planned.Test, planned.System, planned.Attempt)
		if err != nil {
			return nil, err
		}
		if earlier != nil && earlier.Digest != planned.Digest {
			earlier = nil
		}
		if !slices.Contains(chosen, name) {
			if earlier != nil {
				r.unselected = append(r.unselected, *earlier)
			}
			continue
		}
		r.at[name] = len(r.results)
		if earlier != nil && r.stands(earlier.Verdict) {
			r.Progress(name + ": " + string(earlier.Verdict) + " before")
			r.results = append(r.results, *earlier)
			continue
		}
		if err := os.RemoveAll(r.folder.Dir(planned.Test, planned.System, planned.Attempt)); err != nil {
			return nil, err
		}
		r.results = append(r.results, planned)
		todo = append(todo, name)
	}
	return todo, errors.Join(r.folder.Plan(slices.Concat(r.results, r.unselected)), r.write(true))
}

// system is the column of the report.
func (r *runner) system() string { return "kubernetes-" + strings.TrimPrefix(r.Cluster.Version, "v") }

// stands reports whether the verdict of an earlier run is kept.
func (r *runner) stands(v report.Verdict) bool {
	return r.Again != AgainAll && (r.Again != AgainFailed || v != report.Failed)
}

// tests runs the parallel tests, then the others in sequence.
func (r *runner) tests(ctx context.Context, todo []string) error {
	var group errgroup.Group
	group.SetLimit(r.Parallel)
	var alone []string
	for _, name := range todo {
		if strings.Contains(name, serial) {
			alone = append(alone, name)
			continue
		}
		group.Go(func() error { return r.one(ctx, name) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, name := range alone {
		if err := r.one(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// one runs a test. If ctx ends, the test waits for the next run.
func (r *runner) one(ctx context.Context, name string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.mu.Lock()
	result := r.results[r.at[name]]
	r.mu.Unlock()
	began := time.Now()
	result.Started = began.UTC()
	result.Reproduce = "sealift testgrid conformance --kubeconfig FILE --out REPORT --again all --focus " + shellword.Quote("^"+regexp.QuoteMeta(name)+"$")
	result.Steps = []report.Step{{Name: "e2e.test", Verdict: report.Running, Log: logName}}
	if err := r.folder.Note(result); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(r.folder.Dir(result.Test, result.System, result.Attempt), logName))
	if err != nil {
		return err
	}
	o, err := r.Suite.run(ctx, name, r.Timeout, log)
	if err = errors.Join(err, log.Close(), ctx.Err()); err != nil {
		return fmt.Errorf("run %s: %w", name, err)
	}
	result.Verdict, result.Reason = o.verdict()
	result.Took = report.Since(began, time.Now())
	step := &result.Steps[0]
	step.Verdict, step.Took = result.Verdict, result.Took
	if result.Verdict == report.Failed {
		step.Error = result.Reason
	}
	first, _, _ := strings.Cut(result.Reason, "\n")
	r.Progress(strings.TrimSpace(fmt.Sprintf("%s: %s in %s %s", name, result.Verdict, result.Took, first)))
	return errors.Join(r.folder.Save(result), r.add(result))
}

// verdict judges a test. One that did not begin has failed: its result is unknown.
func (o outcome) verdict() (v report.Verdict, reason string) {
	switch {
	case o.test != nil && o.test.failed():
		return report.Failed, o.test.reason()
	case o.suite != nil:
		return report.Failed, o.suite.Error()
	case o.test == nil:
		return report.Failed, "e2e.test did not run it"
	case o.test.State == "passed":
		return report.Passed, ""
	}
	return report.Skipped, o.test.reason()
}

func (r *runner) add(result report.Result) error {
	r.mu.Lock()
	r.results[r.at[result.Name]] = result
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
	results := slices.Concat(r.results, r.unselected)
	return errors.Join(r.folder.SaveSummary(r.summary(results)), r.folder.Write(results))
}

// summary returns how many of the release's tests have run.
func (r *runner) summary(results []report.Result) string {
	ran, waiting := 0, 0
	for _, result := range results {
		switch result.Verdict {
		case report.Passed, report.Failed:
			ran++
		case report.Waiting:
			waiting++
		}
	}
	text := fmt.Sprintf("%d of %d conformance tests of Kubernetes %s ran on a cluster of %s", ran, r.all, r.version, r.Cluster.Version)
	if waiting > 0 {
		text += fmt.Sprintf("; %d have not ended: the run goes on, or was killed, and the same command continues it", waiting)
	}
	return text
}
