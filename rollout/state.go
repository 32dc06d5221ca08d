package rollout

import "time"

// State is the state of a rollout between two calls of Decide. It is plain data: store it as JSON. The zero value
// begins a rollout. Decide never changes the State that it is given.
type State struct {
	Change  string            `json:"change,omitempty"`
	Targets map[string]Record `json:"targets,omitempty"`
}

// Record is the state of one target in a rollout. It changes when the target does, not with each call.
type Record struct {
	// Started is when Decide answered Start. It is kept until the target is done.
	Started time.Time `json:"started,omitzero"`
	// Status and Since are the status that was observed last, and when it was first seen.
	Status Status    `json:"status,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Contact is how long an occasional target was in contact in this status, without the time since Awake.
	Contact time.Duration `json:"contact,omitempty"`
	// Awake is when the contact began that lasts. It is zero while the target sleeps.
	Awake time.Time `json:"awake,omitzero"`
}

// since returns the record with no time after now: our clock was ahead then, and was set back. Times that it noted count from now on.
func (old Record) since(now time.Time) Record {
	for _, t := range []*time.Time{&old.Started, &old.Since, &old.Awake} {
		if t.After(now) {
			*t = now
		}
	}
	return old
}

// observe joins a target's current status with its record. It returns the new record, and how long the target has been in its
// status.
func (old Record) observe(t Target, now time.Time) (rec Record, elapsed time.Duration) {
	rec = Record{Started: old.Started, Status: t.Status, Since: t.Since}
	if t.Status == Succeeded || t.Status == Skipped {
		rec.Started = time.Time{}
	}
	same := old.Status == t.Status && (t.Since.IsZero() || t.Since.Equal(old.Since))
	switch {
	case t.Status == Waiting && !rec.Started.IsZero():
		rec.Status, rec.Since = Working, rec.Started
		same = old.Status == Working
	case t.Since.IsZero() && same:
		rec.Since = old.Since
	case t.Since.IsZero():
		rec.Since = now
	}
	if !t.Occasional {
		return rec, now.Sub(rec.Since)
	}
	if same {
		rec.Contact, rec.Awake = old.Contact, old.Awake
	}
	if t.Carried && t.Asleep {
		return rec.reported(earlier(t.LastSeen, now), same)
	}
	switch {
	case !t.Asleep && rec.Awake.IsZero():
		rec.Awake = now
	case t.Asleep && !rec.Awake.IsZero():
		rec.Contact += max(0, earlier(t.LastSeen, now).Sub(rec.Awake))
		rec.Awake = time.Time{}
	}
	if rec.Awake.IsZero() {
		return rec, rec.Contact
	}
	return rec, rec.Contact + max(0, now.Sub(rec.Awake))
}

// reported counts the contact of a target that reports now and then: from the first report that shows its status to the last. A
// status that only the target can know appears with its report.
func (rec Record) reported(seen time.Time, same bool) (Record, time.Duration) {
	told := rec.Status == Succeeded || rec.Status == Failed
	if rec.Awake.IsZero() && (told && !same || seen.After(rec.Since)) {
		rec.Awake = seen
	}
	if rec.Awake.IsZero() {
		return rec, 0
	}
	return rec, max(0, seen.Sub(rec.Awake))
}

// worth reports whether a record has more information than the target itself.
func (rec Record) worth(t Target) bool {
	waits := rec.Status == Waiting || rec.Status == Skipped || rec.Status == TimedOut
	return !rec.Started.IsZero() || !waits && (t.Occasional || t.Since.IsZero())
}

// earlier returns the earlier of two times. A zero time does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
