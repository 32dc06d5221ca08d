package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/internal/outage"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

// A pass retries add-ons that wait for others: at once after each round that made progress, and then with pauses for as long as
// their dependencies usually take. A webhook starts with its pod, a kind soon after its definition.
const (
	webhookPatience = time.Minute
	kindPatience    = 10 * time.Second
	firstReturn     = time.Second
	longestReturn   = 10 * time.Second
)

// pass is one Apply of a plan.
type pass struct {
	*Cluster
	source  Source
	options ApplyOptions
	addons  []*addOn // all of the plan, in its order

	mu             sync.Mutex      // guards what follows, and the names of add-ons
	said           map[string]bool // notes that were reported
	unreadManifest bool            // a manifest could not be read to learn its objects
}

// addOn is one add-on of a pass.
type addOn struct {
	Decision
	place   int                          // in the plan
	objs    []*unstructured.Unstructured // nil until they are read
	names   map[kube.Ref]bool            // the objects of its manifest; nil until first used
	applied bool                         // and recorded
	keyed   bool                         // its keys exist
	err     error                        // of the last try
}

func (p *pass) run(ctx context.Context) error {
	todo := slices.DeleteFunc(slices.Clone(p.addons), func(a *addOn) bool { return a.Action == Keep })
	var since time.Time // of the last round that brought something
	pauses := poll.Backoff{First: firstReturn, Longest: longestReturn}
	err := pauses.Until(ctx, nil, func(ctx context.Context) (bool, error) {
		for {
			waiting, err := p.round(ctx, todo)
			progress := len(waiting) < len(todo)
			switch {
			case err != nil:
				return true, errors.Join(p.failures(), err)
			case len(waiting) == 0:
				return true, p.failures()
			case since.IsZero() || progress:
				since = time.Now()
				pauses.Reset()
			case time.Since(since) > p.patience(waiting):
				return true, p.failures()
			}
			if todo = waiting; !progress {
				return false, nil
			}
		}
	})
	if poll.Ended(err) {
		return errors.Join(p.failures(), context.Cause(ctx))
	}
	return err
}

// patience is how long the pass waits when no add-on makes progress.
func (p *pass) patience(waiting []*addOn) time.Duration {
	bound := cmp.Or(p.options.Patience, webhookPatience)
	for _, a := range waiting {
		if !errors.Is(a.err, errNoIssuers) && !kube.NoKind(a.err) {
			return bound
		}
	}
	return min(bound, kindPatience)
}

// round tries each add-on once, and returns those that wait for others. Its error ends the pass.
func (p *pass) round(ctx context.Context, todo []*addOn) (waiting []*addOn, err error) {
	for i, a := range todo {
		a.err = p.bring(ctx, a)
		switch {
		case ctx.Err() != nil:
			a.err = nil
			return nil, context.Cause(ctx)
		case a.err == nil:
			a.objs = nil
			if p.options.Done != nil {
				p.options.Done(a.Decision)
			}
		case kube.Awaits(a.err) || errors.Is(a.err, errNoIssuers):
			waiting = append(waiting, a)
			p.report("%q waits for what is not there yet, and is tried again after the others: %s", a.Entry.Name, firstLine(a.err))
		default:
			a.objs = nil
			if err := p.away(ctx); err != nil {
				return nil, fmt.Errorf("the API server does not answer, and %d more add-ons were not tried: %w", len(todo)-i-1, err)
			}
		}
	}
	return waiting, nil
}

// away reports whether the API server is unreachable, so that no other add-on needs to find out.
func (p *pass) away(ctx context.Context) error {
	return p.retry(ctx, kube.Ref{Kind: "version"}, func(ctx context.Context) error {
		_, err := p.engine.Version(ctx)
		return err
	})
}

// bring brings one add-on up to date, in the order of K-24, except that keys are issued also when the update failed: the
// pods of an add-on may wait for them, and then it gets healthy only afterwards.
func (p *pass) bring(ctx context.Context, a *addOn) error {
	if a.Action == Conflict {
		return errors.New(a.Reason)
	}
	if _, err := nodeSelectors(a.Entry.NeedsRollingUpdate); err != nil {
		return err
	}
	var errs []error
	if a.Action != Issue && !a.applied {
		err := p.update(ctx, a)
		errs, a.applied = append(errs, err), err == nil
	}
	if a.PKI && !a.keyed {
		err := p.issueKeys(ctx, a.Entry.Name)
		errs, a.keyed = append(errs, err), err == nil
	}
	return errors.Join(errs...)
}

// report reports each note to a watching person once.
func (p *pass) report(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.options.Note == nil || p.said[line] {
		return
	}
	p.said[line] = true
	p.options.Note(line)
}

// failures joins the errors of all add-ons. Notes about one outage or one missing thing are reported once, with a count.
func (p *pass) failures() error {
	var keys []string
	byCause := map[string][]*addOn{}
	for _, a := range p.addons {
		if a.err == nil {
			continue
		}
		key := causeOf(a.err)
		if byCause[key] == nil {
			keys = append(keys, key)
		}
		byCause[key] = append(byCause[key], a)
	}
	var errs []error
	for _, key := range keys {
		var names []string
		for _, a := range byCause[key] {
			names = append(names, fmt.Sprintf("%q", a.Entry.Name))
		}
		errs = append(errs, fmt.Errorf("error updating %s: %w", kube.Several(names), byCause[key][0].err))
	}
	return errors.Join(errs...)
}

// causeOf returns what groups failures: the innermost errors of an outage or a wait, and the text of any other error.
func causeOf(err error) string {
	if !outage.Passes(err) && !kube.Awaits(err) {
		return err.Error()
	}
	var causes []string
	var walk func(error)
	walk = func(err error) {
		switch inner := err.(type) { //nolint:errorlint // the tree of errors itself is walked
		case interface{ Unwrap() []error }:
			for _, e := range inner.Unwrap() {
				walk(e)
			}
		case interface{ Unwrap() error }:
			if next := inner.Unwrap(); next != nil {
				walk(next)
				return
			}
			causes = append(causes, err.Error())
		default:
			causes = append(causes, err.Error())
		}
	}
	walk(err)
	slices.Sort(causes)
	return strings.Join(slices.Compact(causes), "\n")
}

// firstLine is the beginning of an error that may have many lines: with a heading, the line after it.
func firstLine(err error) string {
	line, rest, more := strings.Cut(err.Error(), "\n")
	if more && strings.HasSuffix(line, ":") {
		next, _, _ := strings.Cut(rest, "\n")
		return line + " " + next
	}
	return line
}
