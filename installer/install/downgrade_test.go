package install

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/lifecycle"
	"github.com/sealift/sealift/preflight"
)

func TestAnOlderBundleIsRefused(t *testing.T) {
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
			state := lifecycle.State{}
			if row.has != "" {
				state[addOnVersion] = row.has
			}
			step := lifecycle.Step{ID: "flannel/" + filesStep, Inputs: "then", Timeout: time.Minute, Run: func(context.Context) (lifecycle.State, error) { return state, nil }}
			if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, lifecycle.Plan{step}, i.journal, func(lifecycle.Event) {}); err != nil {
				t.Fatal(err)
			}
			err := i.checkDowngrade()
			var refused *preflight.RefusedError
			if errors.As(err, &refused) != row.refused || err != nil && !strings.Contains(err.Error(), "--allow-downgrade") {
				t.Errorf("got %v", err)
			}
		})
	}
}
