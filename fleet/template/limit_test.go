package template_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/template"
	"github.com/sealift/sealift/internal/sandbox"
)

// TestManifestsAreBounded has templates and configurations that are small, and make terabytes of manifests.
func TestManifestsAreBounded(t *testing.T) {
	large := ocm.Variable{Name: "LARGE", Value: strings.Repeat("x", 1<<20)}
	pod := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "a"}}
	var pods []map[string]any
	for range 5000 {
		pods = append(pods, pod)
	}
	for name, in := range map[string]template.Input{
		"texts":   input(map[string]any{"a": strings.Repeat("{{LARGE}}", 100_000)}),
		"keys":    input(map[string]any{strings.Repeat("{{LARGE}}", 100_000): "a"}),
		"objects": input(pods...),
	} {
		in.Config.CustomizedVariables = []ocm.Variable{large}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := template.Render(in)
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, sandbox.ErrLimit) || made > 128<<20 {
			t.Errorf("%s: %d MiB were allocated: %v", name, made>>20, err)
		}
		fails(t, name, err, "AddOnTemplate of hello exceeds its limit of 16 MiB of manifests")
	}
}

func input(manifests ...map[string]any) template.Input {
	in := template.Input{AddOn: "hello", Cluster: "rome"}
	in.Template.AgentSpec.Workload.Manifests = manifests
	return in
}
