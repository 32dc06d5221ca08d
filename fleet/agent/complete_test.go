package agent_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/ocm"
)

const onceWork = `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: w, namespace: rome}
spec:
  manifestConfigs:
  - resourceIdentifier: {resource: configmaps, namespace: default, name: once}
    conditionRules: [{type: CEL, condition: Complete, celExpressions: ["has(object.metadata.annotations) && 'done' in object.metadata.annotations"]}]
  - resourceIdentifier: {resource: configmaps, namespace: default, name: later}
    conditionRules: [{type: CEL, condition: Complete, celExpressions: ["has(object.metadata.annotations) && 'done' in object.metadata.annotations"]}]
  workload:
    manifests:
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: once, namespace: default}, data: {value: VALUE}}
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: later, namespace: default}, data: {value: VALUE}}
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: default}, data: {value: VALUE}}
`

// TestCompleteManifestsAreNotReapplied uses a work with two manifests that become complete, one after the other.
func TestCompleteManifestsAreNotReapplied(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	complete := func() string {
		var w ocm.ManifestWork
		if c.Get(t.Context(), types.NamespacedName{Namespace: "rome", Name: "w"}, &w) != nil {
			return "no work"
		}
		said := []string{}
		for _, m := range w.Status.ResourceStatus.Manifests {
			if state := meta.FindStatusCondition(m.Conditions, "Complete"); state != nil {
				said = append(said, m.ResourceMeta.Name+" "+string(state.Status))
			}
		}
		for _, kind := range []string{"Complete", "Applied", "Available"} {
			if state := meta.FindStatusCondition(w.Status.Conditions, kind); state != nil {
				said = append(said, kind+" "+string(state.Status))
			}
		}
		return strings.Join(said, ", ")
	}
	values := func() string {
		var all []string
		for _, name := range []string{"once", "later", "plain"} {
			value, _ := c.configMap(name)["value"].(string)
			all = append(all, value)
		}
		return strings.Join(all, " ")
	}
	done := func(name string) {
		t.Helper()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"done": "yes"}}}`))
		c.must(c.Patch(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}, patch))
	}
	// drift proves that the agent has applied the work again
	drift := func(value string) {
		t.Helper()
		c.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain, namespace: default}\ndata: {value: changed}\n")
		c.eventually("drift of what is not complete is repaired", func() bool { return c.configMap("plain")["value"] == value })
	}

	c.apply(strings.ReplaceAll(onceWork, "VALUE", "one"))
	c.eventually("nothing is complete", func() bool {
		return complete() == "once False, later False, Complete False, Applied True, Available True" && values() == "one one one"
	})
	done("once")
	c.eventually("one manifest is", func() bool {
		return complete() == "once True, later False, Complete False, Applied True, Available True"
	})
	c.apply(strings.ReplaceAll(onceWork, "VALUE", "two"))
	c.eventually("the others are updated", func() bool { return values() == "one two two" })

	t.Log("it is not made again, also by an agent that was started since")
	c.must(c.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "once"}}))
	drift("two")
	c.stop()
	c.start()
	drift("two")
	if got, state := values(), complete(); got != " two two" || state != "once True, later False, Complete False, Applied True, Available True" {
		t.Errorf("the values are %q, the work is %s", got, state)
	}

	t.Log("a rule that cannot be read for some time does not bring it back")
	two := strings.ReplaceAll(onceWork, "VALUE", "two")
	c.apply(strings.Replace(two, "conditionRules: [{", `conditionRules: [{type: CEL, condition: "has a space", celExpressions: ["true"]}, {`, 1))
	c.eventually("the rule is refused", func() bool { return strings.Contains(complete(), "Applied False") })
	c.apply(two)
	c.eventually("all is as before", func() bool {
		return complete() == "once True, later False, Complete False, Applied True, Available True"
	})
	drift("two")
	if got := values(); got != " two two" {
		t.Errorf("the values are %q", got)
	}

	t.Log("the whole work is complete")
	done("later")
	c.eventually("the work is complete", func() bool {
		return complete() == "once True, later True, Complete True, Applied True, Available True"
	})
	c.apply(strings.ReplaceAll(onceWork, "VALUE", "three"))
	c.apply(strings.ReplaceAll(strings.ReplaceAll(work, "VALUE", "after"), "name: w,", "name: after,"))
	c.eventually("another work is applied", func() bool { return c.configMap("shared")["color"] == "after" })
	c.stop()
	c.start()
	c.eventually("the agent has seen the change", func() bool {
		applied := c.applied("w")
		var w ocm.ManifestWork
		return c.Get(t.Context(), types.NamespacedName{Namespace: "rome", Name: "w"}, &w) == nil && applied != nil && applied.ObservedGeneration == w.Generation
	})
	if got := c.configMap("later")["value"]; got != "two" {
		t.Errorf("a complete manifest has %v", got)
	}

	t.Log("what is complete goes with its work")
	c.must(c.Delete(t.Context(), &ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "w"}}))
	c.eventually("its objects go", func() bool { return c.configMap("later") == nil && complete() == "no work" })
}
