//go:build grid

package upstreamfiles

import (
	"os/exec"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// TestPrometheusProgramsTakeConfiguration has the tools of both programs check what the hooks of the add-on write.
func TestPrometheusProgramsTakeConfiguration(t *testing.T) {
	for name, options := range map[string]map[string]string{"by default": nil, "every option": everyReceiver()} {
		dir, _, err := prometheusHooks(t, defaultClass, options)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range [][]string{
			{"promtool", "check", "config", "--syntax-only", "prometheus.yml"}, {"promtool", "check", "config", "--agent", "--syntax-only", "control-plane.yml"},
			{"promtool", "check", "rules", "rules-sealift.yml", "rules-cluster.yml"}, {"amtool", "check-config", "alertmanager.yml"},
		} {
			path, err := lab.Workshop(t).File(t.Context(), upstream.MonitoringProgram(command[0]))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), path, command[1:]...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s, %v: %v\n%s", name, command, err, out)
			}
		}
	}
}
