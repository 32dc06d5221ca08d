package catalog

import (
	"strings"
	"testing"
)

func TestSandboxImageIsRefusedWhereItFails(t *testing.T) {
	const both = "registry.example.org:5000/pause:3.10.2@sha256:00"
	for name, row := range map[string]struct {
		containerd, ref string
		refused         bool
	}{
		"the first release":       {"2.3.0", both, true},
		"the last release":        {"2.3.3", both, true},
		"before":                  {"2.2.9", both, false},
		"repaired":                {"2.3.4", both, false},
		"a tag alone":             {"2.3.1", "registry.example.org:5000/pause:3.10.2", false},
		"a digest alone":          {"2.3.1", "registry.example.org:5000/pause@sha256:00", false},
		"a release of the future": {"2.30.0", both, false},
	} {
		err := CheckSandboxImage(row.containerd, row.ref)
		if (err != nil) != row.refused || row.refused && !strings.Contains(err.Error(), "containerd "+row.containerd+" starts no pod with the sandbox image "+row.ref) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
