package install

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/preflight"
)

func TestOlderBundleIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		has     string
		allowed bool
		refused bool
	}{
		"newer":               {has: "0.9.9"},
		"the same":            {has: "1"},
		"older":               {has: "1.10.0", refused: true},
		"older, as asked for": {has: "1.10.0", allowed: true},
		"nothing is recorded": {},
	} {
		t.Run(name, func(t *testing.T) {
			i := made(t, with(t, "flannel", ""))
			i.options.AllowDowngrade = row.allowed
			recordVersion(t, i, "flannel", row.has)
			err := i.checkDowngrade()
			var refused *preflight.RefusedError
			if errors.As(err, &refused) != row.refused || err != nil && !strings.Contains(err.Error(), "--allow-downgrade") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// recordVersion records a version of an add-on in the journal of a node; "" records nothing.
func recordVersion(t *testing.T, i *Install, addOn, version string) {
	t.Helper()
	state := lifecycle.State{}
	if version != "" {
		state[addOnVersion] = version
	}
	step := lifecycle.Step{ID: addOn + "/" + filesStep, Inputs: "then", Timeout: time.Minute, Run: func(context.Context) (lifecycle.State, error) { return state, nil }}
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, lifecycle.Plan{step}, i.Journal, func(lifecycle.Event) {}); err != nil {
		t.Fatal(err)
	}
}

func TestRookAndLonghornStepThroughMinorVersions(t *testing.T) {
	for name, row := range map[string]struct{ addOn, has, brings, want string }{
		"the next":              {"rook", "1.18.11", "1.19.7", ""},
		"the same":              {"rook", "1.19.2", "1.19.7", ""},
		"two ahead":             {"rook", "1.17.7", "1.19.7", "this node has rook 1.17.7, the bundle brings 1.19.7; rook goes from one minor version to the next; upgrade to rook 1.18.x first"},
		"Longhorn, two ahead":   {"longhorn", "1.1.2", "1.3.1", "upgrade to longhorn 1.2.x first"},
		"two numbers in one":    {"rook", "1.0.4-14.2.21", "1.4.9", "upgrade to rook 1.1.x first"},
		"another add-on":        {"flannel", "0.21.2", "0.28.7", ""},
		"nothing is recorded":   {"rook", "", "1.19.7", ""},
		"another major version": {"rook", "1.19.7", "2.4.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := with(t, row.addOn, "")
			a.info.Version = row.brings
			i := made(t, a)
			recordVersion(t, i, row.addOn, row.has)
			err := i.checkMinorSteps()
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}
