// Package leader asks the agents of other nodes for operations, and waits for their answers. It decides nothing: see packages
// upgrade, encryption and delivery.
package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/kube"
)

// How long an agent may take to start a request, and to finish it.
const (
	beginBound   = 3 * time.Minute
	prepareBound = 2 * time.Hour
	changeBound  = 40 * time.Minute
)

// lookPause is the time between two checks of a report.
const lookPause = 2 * time.Second

// nodes reads and writes the annotations of nodes: a *cluster.View.
type nodes interface {
	OwnNode(ctx context.Context, name string) (cluster.Node, error)
	Annotate(ctx context.Context, name string, annotations map[string]string) error
	AnnotationsOf(ctx context.Context, name string) (map[string]string, error)
}

// Leader is the requesting control plane.
type Leader struct {
	nodes nodes
	sign  func(intent.Intent) (string, error)
}

// Of makes a Leader with the rights of a view, on the control plane that this host is.
func Of(view *cluster.View) Leader {
	return Leader{view, func(in intent.Intent) (string, error) {
		ca, err := identity.ReadAuthority(kubeadm.PKI)
		if err != nil {
			return "", fmt.Errorf("sign requests as a control plane: %w", err)
		}
		own, err := host.Name()
		if err != nil {
			return "", err
		}
		return in.Sign(ca, own)
	}}
}

// Ask writes an intent for the agent of another node, and waits for its answer. While the API is unreachable, the wait continues.
// It ends at once when the node was removed, or the API refuses the request. A request whose number was too low is repeated once.
func (l Leader) Ask(ctx context.Context, say func(string), name string, in intent.Intent) error {
	err := l.ask(ctx, say, name, in)
	if errors.As(err, &lowNumberError{}) {
		err = l.ask(ctx, say, name, in)
	}
	return err
}

func (l Leader) ask(ctx context.Context, say func(string), name string, in intent.Intent) error {
	bound := changeBound
	if in.Operation == intent.Prepare || in.Operation == intent.Images {
		bound = prepareBound
	}
	bound = speed.Stretch(bound)
	if err := l.request(ctx, name, bound, &in); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	w := wait{in: in, name: name, say: say, asked: time.Now()}
	err := kube.Poll(bounded, lookPause, func(ctx context.Context) error {
		report, err := l.Report(ctx, name)
		if err != nil {
			return fmt.Errorf("read the progress of node %s with %s: %w", name, in.Operation, err)
		}
		return w.look(report)
	})
	if bounded.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("node %s: %s is not done: %w; see 'journalctl -u sealift-agent' there, and run the command again", name, in.Operation, err)
	}
	return err
}

// wait is the observed part of a report so far.
type wait struct {
	in    intent.Intent
	name  string
	say   func(string)
	asked time.Time
	begun bool
	step  string
}

// look reads a report. It returns nil when the node is done.
func (w *wait) look(report intent.Report) error {
	if !report.Answers(w.in) {
		if !w.begun && time.Since(w.asked) > speed.Stretch(beginBound) {
			return fmt.Errorf("the agent of node %s does not answer; is the host up? see 'systemctl status sealift-agent' there, and run the command again", w.name)
		}
		return kube.NotYet(errors.New("its agent has not answered"))
	}
	w.begun = true
	switch report.State {
	case intent.Done:
		w.say(fmt.Sprintf("node %s: %s done in %.0f s", w.name, w.in.Operation, report.Seconds))
		return nil
	case intent.Failed:
		if report.Accepted >= w.in.Number {
			return lowNumberError{failure(w.name, report)}
		}
		return failure(w.name, report)
	}
	if report.Step != w.step && report.Step != "" {
		w.step = report.Step
		w.say(fmt.Sprintf("node %s: %s", w.name, w.step))
	}
	return kube.NotYet(fmt.Errorf("it is at %q", w.step))
}

// lowNumberError is the refusal of a node that accepted a higher number before. Its report has that number, for the next request.
type lowNumberError struct{ error }

// failure describes a node's failure.
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

// request signs the intent and writes it, as a new attempt that may begin until the bound.
func (l Leader) request(ctx context.Context, name string, bound time.Duration, in *intent.Intent) error {
	return RetryDuringOutage(ctx, func(ctx context.Context) error {
		n, err := l.nodes.OwnNode(ctx, name)
		if err != nil {
			return err
		}
		report, err := l.Report(ctx, name)
		if err != nil {
			return err
		}
		if err := l.proves(ctx, n, in.Operation); err != nil {
			return err
		}
		now := time.Now()
		in.Node, in.Role, in.Number, in.Until = name, intent.RoleOf(n.ControlPlane()), report.Next(now), now.Add(bound).UTC()
		in.Attempt = intent.Later(report, in.Upgrade)
		text, err := l.sign(*in)
		if err != nil {
			return err
		}
		return l.nodes.Annotate(ctx, name, map[string]string{intent.Annotation: text})
	})
}

// proves refuses to give secrets to an agent of an earlier sealift, which cannot prove that it runs on a control plane.
func (l Leader) proves(ctx context.Context, n cluster.Node, o intent.Operation) error {
	if !n.ControlPlane() || !slices.Contains([]intent.Operation{intent.PrepareUndo, intent.Encrypt, intent.Rotate}, o) {
		return nil
	}
	annotations, err := l.nodes.AnnotationsOf(ctx, n.Name)
	if err != nil {
		return err
	}
	h, err := intent.ParseHost(annotations[intent.AgentAnnotation])
	if err == nil && !h.Signed {
		err = fmt.Errorf("the agent of control plane %s is of an earlier sealift, and cannot prove that it may have the cluster's secrets; run 'sealift upgrade' with a bundle of this sealift first, also one with the versions that run", n.Name)
	}
	return err
}

// Report is a node's last report.
func (l Leader) Report(ctx context.Context, name string) (intent.Report, error) {
	annotations, err := l.nodes.AnnotationsOf(ctx, name)
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

// Outage is how long this host gets for the restart of the only API server.
func Outage() time.Duration { return speed.Stretch(outage) }

// RetryDuringOutage repeats a request until it succeeds, or the API has been unreachable for six minutes. A permanent error ends it at
// once: see kube.Poll.
func RetryDuringOutage(ctx context.Context, request func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, Outage())
	defer cancel()
	return kube.Poll(bounded, outagePause, request)
}
