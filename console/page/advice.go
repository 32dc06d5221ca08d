package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/sealift/sealift/console/command"
	"github.com/sealift/sealift/internal/plaintext"
)

// problem is a problem of the cluster and its remedy.
type problem struct {
	What, Why string
	Urgent    bool     // something does not work now
	Run       []string // commands to copy
}

// problems lists what is wrong by a status, what does not work now first.
func problems(s status, now time.Time) []problem {
	var all []problem
	for _, rule := range []func(status, time.Time) []problem{installProblems, serviceProblems, apiProblems, nodeProblems, addOnProblems, certificateProblems, changeProblems, recoveryProblems} {
		all = append(all, rule(s, now)...)
	}
	var sorted []problem
	for _, urgent := range []bool{true, false} {
		for _, p := range all {
			if p.Urgent == urgent {
				sorted = append(sorted, p)
			}
		}
	}
	return sorted
}

// unread is the problem of a document that cannot be read.
func unread(d command.Document) problem {
	p := problem{What: "The state of this node cannot be read", Why: d.Err.Error(), Urgent: true, Run: []string{d.Command}}
	if d.Said != "" {
		p.Why += ": " + string(clean(d.Said))
	}
	return p
}

func installProblems(s status, _ time.Time) []problem {
	switch {
	case s.State == "none":
		return []problem{{What: "Nothing is installed on this host", Why: "no install or join was begun", Urgent: true, Run: []string{command.Line("install", "--help")}}}
	case s.Failure != nil:
		p := problem{What: "Step " + string(s.Failure.Step) + " failed", Why: string(s.Failure.Error), Urgent: true}
		if s.Failure.Log != "" {
			p.Run = append(p.Run, "sudo less "+string(s.Failure.Log))
		}
		return []problem{p.then(s.Resume)}
	case s.State != "installed" && s.Resume != "":
		return []problem{problem{What: "Work on this node is not finished", Why: fmt.Sprintf("%s: %d of %d steps are finished", s.State, s.Finished, s.Steps)}.then(s.Resume)}
	}
	return nil
}

// then adds a command of a document.
func (p problem) then(words text) problem {
	if words != "" {
		p.Run = append(p.Run, plaintext.Line(string(words)))
	}
	return p
}

// unitLog is the command that shows the last lines of a unit's log.
func unitLog(unit string) string {
	return command.Shell("journalctl", "--no-pager", "-n", "50", "-u", unit)
}

func serviceProblems(s status, _ time.Time) (all []problem) {
	for _, unit := range s.Stopped {
		all = append(all, problem{What: "Service " + string(unit) + " does not run", Why: "the install started it", Urgent: true,
			Run: []string{unitLog(string(unit)), command.Shell("systemctl", "start", string(unit))}})
	}
	for _, one := range s.Settings {
		p := problem{What: "Kernel setting " + string(one.Name) + " is " + string(one.Is), Why: "pods need 1", Urgent: one.File == "", Run: []string{command.Shell("systemctl", "restart", "kubelet")}}
		if one.File != "" {
			p.What, p.Why, p.Run = string(one.File)+" sets "+string(one.Name)+" to "+string(one.Is), "pods are cut off after the next boot; remove the line", nil
		}
		all = append(all, p)
	}
	return all
}

func apiProblems(s status, _ time.Time) []problem {
	run := []string{command.Line("certs"), command.Shell("crictl", "ps", "-a", "--name", "etcd|kube-apiserver"), unitLog("kubelet")}
	switch {
	case s.API == nil && (s.Cluster == "answers" || s.State == "none"):
		return nil
	case s.API == nil:
		return []problem{{What: "The cluster cannot be asked", Why: string(s.Cluster), Urgent: true, Run: run}}
	case !s.API.Answers:
		return []problem{{What: "The Kubernetes API does not answer", Why: string(s.API.Endpoint) + ": " + string(s.API.Why), Urgent: true, Run: run}}
	case !s.API.Ready:
		return []problem{{What: "The Kubernetes API is not ready", Why: string(s.API.Why), Urgent: true, Run: run}}
	}
	return nil
}

func nodeProblems(s status, _ time.Time) (all []problem) {
	for _, n := range s.Nodes {
		if n.Ready && n.Why == "" {
			continue
		}
		p := problem{What: "Node " + string(n.Name) + " is not ready", Why: string(n.Why), Urgent: true}
		if n.Ready {
			p.What, p.Urgent = "Node "+string(n.Name)+" takes no pods", false
		}
		p.Run = []string{command.Kubectl("describe", "node", string(n.Name))}
		all = append(all, p)
	}
	return all
}

func addOnProblems(s status, _ time.Time) (all []problem) {
	for _, a := range s.AddOns {
		switch {
		case a.State == "failed":
			all = append(all, problem{What: "Add-on " + string(a.Name) + " failed", Why: string(a.Why), Urgent: true}.then(s.Resume))
		case a.Health == "not ready":
			all = append(all, problem{What: "Add-on " + string(a.Name) + " is not ready", Why: string(a.Why), Urgent: true, Run: []string{command.Kubectl("get", "pods", "-A")}})
		}
	}
	return all
}

func certificateProblems(s status, now time.Time) (all []problem) {
	for _, c := range s.Certificates {
		p := problem{What: string(c.File), Run: []string{command.Line("certs"), command.Line("certs", "renew", "--plan")}}
		switch {
		case c.Problem != "":
			p.What, p.Why, p.Urgent = p.What+" is damaged", string(c.Problem), true
		case c.End == nil:
			p.What += " needs attention"
		case now.After(*c.End):
			p.What, p.Why, p.Urgent = p.What+" has ended", "on "+c.End.UTC().Format(time.DateOnly), true
		default:
			p.What, p.Why = p.What+" ends soon", "on "+c.End.UTC().Format(time.DateOnly)
		}
		all = append(all, p)
	}
	return all
}

func changeProblems(s status, _ time.Time) (all []problem) {
	for _, u := range s.UnderWay {
		p := problem{What: "Not finished: " + string(u.About), Urgent: u.Failed}
		switch {
		case u.Failed:
			p.Why = "the last run ended with an error"
		case u.Waits:
			p.Why = "every node is done, and the end waits for a person"
		default:
			p.Why = "led by " + string(u.Leader)
		}
		all = append(all, p.then(u.Next))
	}
	if s.Undo != nil {
		all = append(all, problem{What: "The last upgrade is being undone", Why: "together with the other control planes; it resumes on " + string(s.Undo.Leader), Run: []string{command.Line("upgrade", "undo")}})
	}
	if s.Rotation != nil {
		var parts []string
		for _, part := range s.Rotation.Parts {
			parts = append(parts, string(part))
		}
		all = append(all, problem{What: "A rotation of CAs is not finished", Why: strings.Join(parts, ", ") + ", since " + string(s.Rotation.Since)}.then(s.Rotation.Next))
	}
	return all
}

// late is how many intervals a snapshot may be late.
const late = 2

func recoveryProblems(s status, now time.Time) (all []problem) {
	if k := s.Snapshots; k != nil {
		every := time.Duration(k.Every * float64(time.Second))
		list := []string{command.Line("snapshot", "list"), unitLog("sealift-snapshots")}
		switch {
		case k.Problem != "":
			all = append(all, problem{What: "Snapshots need attention", Why: string(k.Problem), Run: list})
		case every > 0 && k.Last != nil && now.Sub(k.Last.Time) > late*every:
			all = append(all, problem{What: "The last snapshot is old", Why: "from " + k.Last.Time.UTC().Format(time.RFC3339) + "; the Installer promises one every " + every.String(), Run: list})
		}
	}
	if d := s.Drill; d != nil && !d.Passed {
		all = append(all, problem{What: "The last restore drill failed", Why: "on " + d.Time.UTC().Format(time.RFC3339), Run: []string{command.Line("restore", "--drill")}})
	}
	for _, one := range s.Space {
		if one.Free < one.Needed {
			all = append(all, problem{What: string(one.Path) + " is too small for the next upgrade", Why: fmt.Sprintf("%s are free, and an upgrade takes %s", plaintext.Bytes(one.Free), plaintext.Bytes(one.Needed)), Run: []string{command.Shell("df", "-h", string(one.Path))}})
		}
	}
	return all
}
