package binding

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	admission "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// mostConditions is how many conditions of a webhook the API server takes.
const mostConditions = 64

// rule finds the parts of a rule that the API server refuses. One refused rule keeps it from taking any webhook of the operator.
func (r *reader) rule(path string, rule *admission.RuleWithOperations) {
	star(r, path+".operations", rule.Operations)
	star(r, path+".apiGroups", rule.APIGroups)
	star(r, path+".apiVersions", rule.APIVersions)
	for i, version := range rule.APIVersions {
		if version == "" {
			r.addf(fmt.Sprintf("%s.apiVersions[%d]", path, i), "is empty")
		}
	}
	r.resources(path+".resources", rule.Resources)
}

// star finds a * among other entries.
func star[T ~string](r *reader, path string, all []T) {
	if len(all) > 1 && slices.Contains(all, "*") {
		r.addf(path, "* stands beside others; it means all, so leave it alone, or remove it")
	}
}

// resources finds duplicates in the list caused by a *. Like the API server, it takes [pods, *], and not [*, pods].
func (r *reader) resources(path string, all []string) {
	covered := map[string]string{} // x/ or /y to the item that has all of it
	star, last := false, ""
	for i, resource := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		name, sub, below := strings.Cut(resource, "/")
		switch {
		case resource == "":
			r.addf(at, "is empty")
			continue
		case resource == "*/*" && len(all) > 1:
			r.addf(at, "*/* has all resources; remove the others, or this")
			continue
		case !below:
			star, last = star || resource == "*", resource
			continue
		}
		for _, other := range []string{covered[name+"/"], covered["/"+sub]} {
			if other != "" {
				r.addf(at, "%s is in %s already; remove one of them", resource, other)
			}
		}
		if sub == "*" {
			covered[name+"/"] = resource
		}
		if name == "*" {
			covered["/"+sub] = resource
		}
	}
	if star && last != "*" {
		r.addf(path, "* stands beside %s; remove one of them", last)
	}
}

// conditions finds conditions that the API server refuses, without checking their expressions.
func (r *reader) conditions(path string, all []admission.MatchCondition) {
	if len(all) > mostConditions {
		r.addf(path, "may have at most %d items", mostConditions)
	}
	seen := map[string]int{}
	for i, c := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		if strings.TrimSpace(c.Expression) == "" {
			r.addf(at+".expression", "is empty")
		}
		for _, text := range validation.IsQualifiedName(c.Name) {
			r.add(at+".name", errors.New(text))
		}
		if first, doubled := seen[c.Name]; doubled {
			r.addf(at+".name", "matchConditions[%d] has the name %s, too; give them different names", first, c.Name)
		} else {
			seen[c.Name] = i
		}
	}
}
