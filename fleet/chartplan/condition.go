package chartplan

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/sealift/sealift/fleet/caaph"
)

// Aggregate returns conditions HelmReleaseProxySpecsUpToDate, HelmReleaseProxiesReady and Ready of a HelmChartProxy
// (C-14, X-35). The first one is the controller's own, such as an error; if it is zero, all specs are up to date,
// or will be.
func Aggregate(releases []caaph.HelmReleaseProxy, specs Condition, had Condition) []Condition {
	ready := proxiesReady(releases)
	for _, r := range releases {
		if !r.DeletionTimestamp.IsZero() { // its deletion is a generation that nobody observes
			if specs == (Condition{}) {
				specs = Condition{"HelmReleaseProxySpecsUpToDate", "False", "HelmReleaseProxySpecsUpdating", deleting(r)}
			}
			continue
		}
		if r.Generation != r.Status.ObservedGeneration {
			if specs == (Condition{}) {
				specs = Condition{
					"HelmReleaseProxySpecsUpToDate", "False", "HelmReleaseProxySpecsUpdating",
					fmt.Sprintf("Helm release proxy '%s' is not updated yet", r.Name),
				}
			}
			if ready = had; had.Status == "" {
				ready = Condition{"HelmReleaseProxiesReady", "Unknown", "NotYetReported", "Condition HelmReleaseProxiesReady not yet reported"}
			}
			break
		}
	}
	if specs == (Condition{}) {
		specs = Condition{"HelmReleaseProxySpecsUpToDate", "True", "UpToDate", ""}
	}
	return []Condition{Summary(specs, ready), ready, specs}
}

// deleting reports that a release is uninstalled from a cluster that is no longer selected, and what blocks that.
func deleting(r caaph.HelmReleaseProxy) string {
	message := fmt.Sprintf("Helm release proxy '%s' is being deleted: its release is uninstalled from cluster '%s'", r.Name, r.Spec.ClusterRef.Name)
	if c := meta.FindStatusCondition(r.Status.Conditions, "Ready"); c != nil && c.Status != "True" && c.Message != "" {
		message += ": " + strings.TrimPrefix(c.Message, "* ")
	}
	return message
}

// proxiesReady gathers condition Ready of the releases. Those that say the same share a line. Without releases, all are ready.
func proxiesReady(releases []caaph.HelmReleaseProxy) Condition {
	if len(releases) == 0 {
		return Condition{Type: "HelmReleaseProxiesReady", Status: "True", Reason: "Ready"}
	}
	ready := Condition{Type: "HelmReleaseProxiesReady", Status: "True", Reason: "InfoReported"}
	sources := make(map[string][]string)
	var messages []string
	for _, r := range releases {
		status, message := "Unknown", "Condition Ready not yet reported"
		if c := meta.FindStatusCondition(r.Status.Conditions, "Ready"); c != nil {
			status, message = string(c.Status), c.Message
		}
		switch {
		case status == "False" && ready.Status != "False":
			ready.Status, ready.Reason = "False", "IssuesReported"
			messages = nil
		case status == "Unknown" && ready.Status == "True":
			ready.Status, ready.Reason = "Unknown", "UnknownReported"
			messages = nil
		}
		if status != ready.Status {
			continue
		}
		if !slices.Contains(messages, message) {
			messages = append(messages, message)
		}
		sources[message] = append(sources[message], "HelmReleaseProxy/"+r.Name)
	}
	for i, message := range messages {
		slices.Sort(sources[message])
		messages[i] = fmt.Sprintf("%s (sources: %s)", message, strings.Join(sources[message], ", "))
	}
	ready.Message = strings.Join(messages, "; ")
	return ready
}

// Summary derives condition Ready from the others: the worst status, and their messages.
func Summary(conditions ...Condition) Condition {
	ready := Condition{Type: "Ready", Status: "True", Reason: "InfoReported"}
	for _, c := range conditions {
		switch {
		case c.Status == "False":
			ready.Status, ready.Reason = "False", "IssuesReported"
		case c.Status == "Unknown" && ready.Status == "True":
			ready.Status, ready.Reason = "Unknown", "UnknownReported"
		}
	}
	var lines []string
	for _, c := range conditions {
		if c.Status == ready.Status && c.Message != "" {
			lines = append(lines, "* "+c.Type+": "+c.Message)
		}
	}
	ready.Message = strings.Join(lines, "\n")
	return ready
}
