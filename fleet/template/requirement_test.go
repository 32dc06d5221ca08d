package template

import (
	"regexp"
	"testing"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

// TestRequirementRows compares patterns of containers with the expressions that upstream makes of them.
func TestRequirementRows(t *testing.T) {
	type expected struct{ ContainerIDRegex string }
	type row struct {
		ContainerResourceRequirements []ocm.ContainerRequirement
		ExpectedResourceRequirements  []expected
	}
	type config struct{ ResourceRequirements []ocm.ContainerRequirement }
	type values struct {
		AddOnObjs      []struct{ Spec config }
		ExpectedValues struct{ ResourceRequirements []expected }
	}
	check := func(name string, requirements []ocm.ContainerRequirement, want []expected) {
		if len(want) != len(requirements) {
			return // a pattern that upstream refuses, and the API server before it
		}
		for i, r := range requirements {
			expression := regexp.MustCompile(want[i].ContainerIDRegex)
			for _, id := range []string{r.ContainerID, "a:b:c", "a:b:d", "a:x:c", "x:b:c", "x:y:z", "deployments:hello:agent", "daemonsets:hello:agent"} {
				if got := matches(r.ContainerID, id); got != expression.MatchString(id) {
					t.Errorf("%s: %s matches %s: %v", name, r.ContainerID, id, got)
				}
			}
		}
	}
	for _, r := range upstreamcases.Rows[row](t, "fleet/ocm/addon_framework_addonfactory__addondeploymentconfig__TestGetRegexResourceRequirements.json") {
		check(r.Name, r.Case.ContainerResourceRequirements, r.Case.ExpectedResourceRequirements)
	}
	for _, r := range upstreamcases.Rows[values](t, "fleet/ocm/addon_framework_addonfactory__addondeploymentconfig__TestGetAddOnDeploymentConfigValues.json") {
		for _, o := range r.Case.AddOnObjs {
			check(r.Name, o.Spec.ResourceRequirements, r.Case.ExpectedValues.ResourceRequirements)
		}
	}
}
