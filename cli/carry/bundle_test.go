package carry

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/spec"
)

func TestStepsOfAnUpgradeAreTheMinorVersionsBetween(t *testing.T) {
	for name, row := range map[string]struct {
		from, to string
		want     string // of the steps, or of the error
		err      bool
	}{
		"no upgrade":       {"", "1.36.3", "", false},
		"the same minor":   {"1.36.1", "1.36.3", "", false},
		"the next minor":   {"1.35.4", "1.36.3", "", false},
		"three minors":     {"1.33.0", "1.36.3", "1.34.x 1.35.x", false},
		"an older version": {"1.37.0", "1.36.3", "is no newer", true},
		"no version":       {"newest", "1.36.3", "not a version", true},
		"no Kubernetes":    {"1.35.4", "", "not a version", true},
		"another major":    {"2.1.0", "1.36.3", "is no newer", true},
	} {
		t.Run(name, func(t *testing.T) {
			installer := &spec.Installer{}
			if row.to != "" {
				installer.AddOns = []spec.AddOn{{Name: "kubernetes", Version: row.to}}
			}
			steps, err := kubernetesSteps(row.from, installer)
			if row.err != (err != nil) || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Fatalf("%v", err)
			}
			var versions []string
			for _, s := range steps {
				versions = append(versions, s.Version)
			}
			if got := strings.Join(versions, " "); err == nil && got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}
