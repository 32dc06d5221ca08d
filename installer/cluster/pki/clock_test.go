package pki

import (
	"strings"
	"testing"
	"time"
)

// TestClockSetBackNeverShortensCertificates renews while the clock is ahead, and again when it is right; and while it is behind.
func TestClockSetBackNeverShortensCertificates(t *testing.T) {
	for name, wrong := range map[string]time.Duration{"a day ahead": 24 * time.Hour, "fourteen months ahead": 425 * 24 * time.Hour, "a minute behind": -time.Minute} {
		h, now := controlPlane(t), time.Now()
		before := h.must(t, now)
		h.renew(t, now.Add(wrong))
		if wrong > 0 {
			before = h.must(t, now)
			h.renew(t, now)
		}
		for file, e := range h.must(t, now) {
			if e.Kind == CA || e.End == nil {
				continue
			}
			if e.Begin != nil || e.Ended(now) || e.End.Before(*before[file].End) {
				t.Errorf("%s: %s is valid until %s, and was until %s; %s", name, file, e.End, before[file].End, e.Why())
			}
		}
	}
}

// TestClockBeforeCAIsNamed uses a host whose clock went back to 1970, with a dead battery.
func TestClockBeforeCAIsNamed(t *testing.T) {
	h, now := controlPlane(t), time.Unix(0, 0)
	entries, err := h.list(now)
	if err != nil {
		t.Fatal(err)
	}
	if s := ScheduleOf(entries, now); len(s.Due) > 0 {
		t.Errorf("due are %v", s.Due)
	}
	for _, e := range entries {
		if e.End != nil && (!e.Due(now) || !strings.Contains(e.Why(), "after the clock of this host; set the clock")) {
			t.Errorf("%s: %s", e.File, e.Why())
		}
	}
	if _, err := renewals(h, entries, now); err == nil || !strings.Contains(err.Error(), "set the clock") {
		t.Errorf("a renewal in 1970: %v", err)
	}
	for _, e := range h.must(t, time.Now()) {
		if e.Begin != nil {
			t.Errorf("%s is not valid with the right clock", e.File)
		}
	}
}
