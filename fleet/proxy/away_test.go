package proxy

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sealift/sealift/fleet/caaph"
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
