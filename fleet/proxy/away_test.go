package proxy

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
)

// TestClusterThatRefusesIsThere: a cluster that answers is available, and its release is not as it should be.
func TestClusterThatRefusesIsThere(t *testing.T) {
	for name, tt := range map[string]struct {
		fails              error
		available, release string
		observed           int64
	}{
		"it refuses":          {apierrors.NewUnauthorized("who are you?"), "Available", "HelmReleaseGetFailed", 1},
		"it does not answer":  {errors.New("no route"), "HelmReleaseGetFailed", "", 0},
		"a proxy has no host": {apierrors.NewServiceUnavailable("no upstream"), "HelmReleaseGetFailed", "", 0},
	} {
		a := attemptOf(answers{fails: tt.fails})
		if err := a.keep(t.Context()); err == nil {
			t.Errorf("%s: it succeeds", name)
		}
		a.wants(t, name, tt.available, tt.release, tt.observed)
	}
}

// leaving is a Provider whose operations fail, and whose cluster answers differently from then on.
type leaving struct {
	answers
	then error
	left bool
}

func (l *leaving) Read(context.Context, Target) (chartplan.Installed, error) {
	if l.left {
		return l.has, l.then
	}
	return l.has, nil
}

func (l *leaving) Run(context.Context, Target, chartplan.Operation) (chartplan.Installed, error) {
	l.left = true
	return chartplan.Installed{}, errors.New("connection reset")
}

func (l *leaving) Remove(context.Context, Target) error {
	l.left = true
	return errors.New("connection reset")
}

// TestClusterThatGoesAwayHasNotFailed: a rollout continues without such a cluster, and stops after one whose release has failed.
func TestClusterThatGoesAwayHasNotFailed(t *testing.T) {
	for name, tt := range map[string]struct {
		then               error
		available, release string
		observed           int64
	}{
		"it answers": {nil, "Available", "failed", 1},
		"it refuses": {apierrors.NewUnauthorized("who are you?"), "Available", "failed", 1},
		"it is away": {errors.New("no route"), "HelmReleaseGetFailed", "kept", 0},
	} {
		a := attemptOf(&leaving{then: tt.then})
		if err := a.keep(t.Context()); err == nil {
			t.Errorf("%s: it succeeds", name)
		}
		a.wants(t, name, tt.available, map[string]string{"failed": operationFails, "kept": preparing}[tt.release], tt.observed)

		hrp := &caaph.HelmReleaseProxy{}
		l := &leaving{then: tt.then, answers: answers{has: chartplan.Installed{Status: "deployed", Owner: chartplan.Owner(*hrp)}}}
		a = attemptOf(l)
		if err := a.remove(t.Context(), &chartplan.Cluster{}); err == nil {
			t.Errorf("%s: the removal succeeds", name)
		}
		a.wants(t, name+", removed", tt.available, map[string]string{"failed": removalFails}[tt.release], tt.observed)
	}
}

// attemptOf is an attempt for a release that is not installed.
func attemptOf(p Provider) *attempt {
	hrp := &caaph.HelmReleaseProxy{}
	hrp.Generation, hrp.Spec.Version = 1, "1.0.0"
	return &attempt{place: &onCluster{}, provider: p, hrp: hrp, base: hrp.DeepCopyObject().(*caaph.HelmReleaseProxy)}
}

// wants checks the reasons of the conditions, and the observed generation.
func (a *attempt) wants(t *testing.T, name, available, release string, observed int64) {
	t.Helper()
	status := a.hrp.Status
	got := [...]string{condition(status.Conditions, clusterAvailable).Reason, condition(status.Conditions, releaseReady).Reason}
	if got != [...]string{available, release} || status.ObservedGeneration != observed {
		t.Errorf("%s: got %v and generation %d, want %s, %s and %d", name, got, status.ObservedGeneration, available, release, observed)
	}
}
