package node

import (
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/access"
)

func TestValidityTakesDays(t *testing.T) {
	for text, want := range map[string]time.Duration{"30d": 720 * time.Hour, "12h": 12 * time.Hour, "1h30m": 90 * time.Minute} {
		if got, err := validity(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "-1d", "1.5d", "99999999d", "soon"} {
		if got, err := validity(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestIssuedKubeconfigsAreListed(t *testing.T) {
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	got := issuedEntries([]access.Issued{{Name: "jane", Groups: []string{"dev", "ops"}, Serial: "1f", Issuer: "CN=kubernetes", End: now.Add(49 * time.Hour)}}, now)
	if len(got) != 1 || got[0].File != "serial 1f" || got[0].Subject != "CN=jane,O=dev,O=ops" || *got[0].Days != 2 || got[0].Ended(now) {
		t.Errorf("%+v", got)
	}
}
