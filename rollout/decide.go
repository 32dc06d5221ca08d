package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// target is a Target with Decide's state for it.
type target struct {
	Target
	record   Record
	decision Decision
}

// Decide returns what each target may do at the time now. See the package comment for the rules.
func Decide(spec Spec, targets []Target, state State, now time.Time) (Result, error) {
	if err := check(spec, targets); err != nil {
		return Result{}, fmt.Errorf("rollout %s: %w", spec.Change, err)
	}
	if state.Change != spec.Change {
		state = State{}
	}
	judged := make([]*target, len(targets))
	for i, t := range targets {
		judged[i] = judge(spec, t, state.Targets[t.Name], now)
	}
	slices.SortFunc(judged, func(a, b *target) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
	wave, stopped := current(spec, judged)
	start(spec, judged, wave, stopped, now)
	return result(spec, judged, wave, stopped, now), nil
}

// judge finds the status of one target, and when that ends.
func judge(spec Spec, t Target, old Record, now time.Time) *target {
	if t.Since.After(now) { // the target's clock is ahead of ours
		t.Since = time.Time{}
	}
	if t.Held && t.Status == Waiting {
		old.Started = time.Time{} // its start was called off
	}
	rec, elapsed := old.since(now).observe(t, now)
	d := Decision{Name: t.Name, Wave: t.Wave, Status: rec.Status, Action: Keep, Asleep: t.Asleep}
	limit, limited := time.Duration(0), false
	switch rec.Status {
	case Waiting:
		d.Action = Wait
	case Working, Failed:
		if spec.Deadline != nil {
			limit, limited = *spec.Deadline, true
		}
		if limited && elapsed >= limit {
			d.Status = TimedOut
		}
	case Succeeded:
		if limit = spec.Soak; elapsed < limit {
			d.Status, limited = Soaking, true
		}
	}
	if t.Status == Waiting && d.Status == Working {
		d.Action = Start
	}
	d.AtWork = !t.Asleep && (d.Status == Working || d.Status == Failed || d.Status == Soaking)
	if limited && !t.Asleep {
		d.Until = now.Add(limit - elapsed)
	}
	return &target{Target: t, record: rec, decision: d}
}

// current returns the first incomplete wave, and whether its failures stop the rollout.
func current(spec Spec, judged []*target) (wave int, stopped bool) {
	type count struct{ total, failed, open, asleep, done int }
	counts := make([]count, len(spec.Waves))
	for _, t := range judged {
		c := &counts[t.Wave]
		c.total++
		switch t.decision.Status {
		case Failed, TimedOut:
			c.failed++
		case Succeeded:
			c.done++
		case Skipped:
		default:
			if t.Asleep {
				c.asleep++
			} else {
				c.open++
			}
		}
	}
	for i, w := range spec.Waves {
		c := counts[i]
		tolerated := w.MaxFailures.Of(c.total)
		if w.Mandatory {
			tolerated = 0
		}
		if c.failed > tolerated {
			return i, true
		}
		if c.open > 0 || w.Mandatory && c.asleep > 0 && c.done == 0 {
			return i, false
		}
	}
	return len(spec.Waves), false
}

// start returns Start for as many waiting targets of the wave as may begin, and the reason to wait for all others.
func start(spec Spec, judged []*target, wave int, stopped bool, now time.Time) {
	members, free := 0, len(judged)
	for _, t := range judged {
		if t.Wave == wave {
			members++
		}
	}
	if wave < len(spec.Waves) && spec.Waves[wave].AtOnce.Value > 0 {
		free = spec.Waves[wave].AtOnce.Of(members)
		for _, t := range judged {
			if t.decision.AtWork {
				free--
			}
		}
	}
	for _, t := range judged {
		d := &t.decision
		switch {
		case d.Action != Wait:
		case t.Asleep && !t.Carried:
			d.Reason = WaitsForWakeUp
		case t.Held:
			d.Reason = WaitsForOthers
		case stopped:
			d.Reason = WaitsForRepair
		case t.Wave > wave, t.Wave < wave && !t.Asleep: // a wave does not wait for those that are asleep
			d.Reason = WaitsForWave
		case spec.Paused:
			d.Reason = WaitsForResume
		case t.Asleep:
			d.Action, d.Status = Start, Working
			t.record, _ = Record{Started: now}.observe(t.Target, now)
		case free <= 0:
			d.Reason = WaitsForSlot
		default:
			free--
			d.Action, d.Status, d.AtWork = Start, Working, true
			t.record, _ = Record{Started: now}.observe(t.Target, now)
			if spec.Deadline != nil {
				d.Until = now.Add(*spec.Deadline)
			}
		}
	}
}

// result counts the remaining work.
func result(spec Spec, judged []*target, wave int, stopped bool, now time.Time) Result {
	r := Result{Wave: wave, Targets: make([]Decision, len(judged)), State: State{Change: spec.Change}}
	open, failed, held := 0, 0, 0
	for i, t := range judged {
		d := t.decision
		r.Targets[i] = d
		if t.record.worth(t.Target) {
			if r.State.Targets == nil {
				r.State.Targets = make(map[string]Record)
			}
			r.State.Targets[t.Name] = t.record
		}
		if d.Until.After(now) {
			r.Again = earlier(r.Again, d.Until)
		}
		switch d.Status {
		case Waiting, Working, Soaking:
			open++
		case Failed:
			failed++
			if !d.Until.IsZero() {
				open++
			}
		case TimedOut:
			failed++
		}
		if d.Action == Wait && d.Reason != WaitsForWakeUp {
			held++
		}
	}
	switch {
	case stopped:
		r.Phase = Stopped
	case spec.Paused && held > 0:
		r.Phase = Paused
	case open > 0:
		r.Phase = Progressing
	case failed > 0:
		r.Phase = Ended
	default:
		r.Phase = Done
	}
	return r
}
