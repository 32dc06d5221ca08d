// Package leader asks the agents of other nodes for operations, and waits for their answers. It decides nothing: see packages
// upgrade, encryption and delivery.
package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/intent"
)

// How long an agent may take to begin with what it is asked for, and for all of it.
const (
	beginBound   = 3 * time.Minute
	prepareBound = 2 * time.Hour
	changeBound  = 40 * time.Minute
)

// lookPause is the time between two looks at an answer.
const lookPause = 2 * time.Second

// Leader is a control plane as the one that asks.
type Leader struct{ view *cluster.View }

// Of makes a Leader with the rights of a view.
func Of(view *cluster.View) Leader { return Leader{view} }

// Ask writes an intent for the agent of another node, and waits for its answer.
func (l Leader) Ask(ctx context.Context, say func(string), name string, in intent.Intent) error {
	if err := l.request(ctx, name, &in); err != nil {
		return err
	}
	bound := changeBound
	if in.Operation == intent.Prepare || in.Operation == intent.Images {
		bound = prepareBound
	}
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	asked, begun, said := time.Now(), false, ""
	for {
		select {
		case <-bounded.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("node %s: %s is not done after %s (it was at %s); see 'journalctl -u sealift-agent' there, and run the command again", name, in.Operation, bound, said)
		case <-time.After(lookPause):
		}
		report, err := l.Report(bounded, name)
		switch {
		case err != nil: // the API is away for a moment
			continue
		case !report.Answers(in):
			if !begun && time.Since(asked) > beginBound {
				return fmt.Errorf("the agent of node %s does not answer; is the host up? see 'systemctl status sealift-agent' there, and run the command again", name)
			}
			continue
		}
		begun = true
		switch report.State {
		case intent.Done:
			say(fmt.Sprintf("node %s: %s done in %.0f s", name, in.Operation, report.Seconds))
			return nil
		case intent.Failed:
			return failure(name, report)
		}
		if report.Step != said && report.Step != "" {
			said = report.Step
			say(fmt.Sprintf("node %s: %s", name, said))
		}
	}
}

// failure says what a node could not do.
func failure(name string, r intent.Report) error {
	text := fmt.Sprintf("node %s: %s failed", name, r.Operation)
	if r.Step != "" {
		text += " at " + r.Step
	}
	text += ": " + r.Error
	if r.Log != "" {
		text += "\nlog on that node: " + r.Log
	}
	return errors.New(text)
}

// request writes the intent, as a new attempt.
func (l Leader) request(ctx context.Context, name string, in *intent.Intent) error {
	return Insist(ctx, func(ctx context.Context) error {
		report, err := l.Report(ctx, name)
		if err != nil {
			return err
		}
		in.Attempt = intent.Later(report, in.Upgrade)
		return l.view.Annotate(ctx, name, map[string]string{intent.Annotation: in.Encode()})
	})
}

// Report is what a node last answered.
func (l Leader) Report(ctx context.Context, name string) (intent.Report, error) {
	annotations, err := l.view.AnnotationsOf(ctx, name)
	if err != nil {
		return intent.Report{}, err
	}
	return intent.ParseReport(annotations[intent.ReportAnnotation])
}

// How long an API is asked again that does not answer: its server may be restarted just now.
const (
	outage      = 6 * time.Minute
	outagePause = time.Second
)

// Insist repeats a request until it succeeds, or the API has been away for too long.
func Insist(ctx context.Context, request func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, outage)
	defer cancel()
	for {
		err := request(bounded)
		if err == nil {
			return nil
		}
		select {
		case <-bounded.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(outagePause):
		}
	}
}
