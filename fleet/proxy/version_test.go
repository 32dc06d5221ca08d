package proxy

import (
	"context"
	"testing"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
	"github.com/sealift/sealift/helm/release"
	"github.com/sealift/sealift/helm/source"
)

// TestVersionIsThatOfChart has a chart 0.1.0, whatever version its tag has.
func TestVersionIsThatOfChart(t *testing.T) {
	for _, tt := range []struct {
		wants, has, want string
		fetched          int
	}{
		{"1.0.0", "", "1.0.0", 0},
		{"1.0.0", "1.0.0", "1.0.0", 0},
		{"v1.0.0@sha256:00", "1.0.0", "v1.0.0", 0},
		{"1.0.0", "0.1.0", "0.1.0", 1},
		{"1.0.0", "0.0.9", "0.1.0", 1},
		{"~1", "0.1.0", "0.1.0", 1},
		{"", "", "0.1.0", 1},
	} {
		fetched := 0
		h := &Helm{get: func(context.Context, source.Chart, source.Access, bool) (release.Chart, error) {
			fetched++
			return release.Chart{Version: "0.1.0"}, nil
		}}
		hrp := &caaph.HelmReleaseProxy{}
		hrp.Spec.Version = tt.wants
		if got, err := h.Version(t.Context(), Target{Proxy: hrp}, tt.has); err != nil || got != tt.want || fetched != tt.fetched {
			t.Errorf("%+v: got %s, %v, and fetched %d times", tt, got, err, fetched)
		}
	}
}

// misnamed is a Provider whose chart has another version than its tag.
type misnamed struct {
	answers
	ran []chartplan.Operation
}

func (m *misnamed) Version(context.Context, Target, string) (string, error) { return "0.1.0", nil }

func (m *misnamed) Run(_ context.Context, _ Target, o chartplan.Operation) (chartplan.Installed, error) {
	m.ran = append(m.ran, o)
	return m.then, nil
}

// TestMisnamedChartIsUpgradedOnce: a new version has a chart that calls itself as before.
func TestMisnamedChartIsUpgradedOnce(t *testing.T) {
	m := new(misnamed)
	a := attemptOf(m)
	m.has = chartplan.Installed{Status: "deployed", Revision: 1, Version: "0.1.0", Owner: chartplan.Owner(*a.hrp)}
	m.then = m.has
	for range 3 {
		if err := a.keep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.ran) != 1 || m.ran[0] != chartplan.Upgrade {
		t.Errorf("ran %v", m.ran)
	}
}
