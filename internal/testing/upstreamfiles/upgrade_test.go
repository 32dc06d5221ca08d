package upstreamfiles

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

// TestAddOnUpgradesOrphanNothing applies what the hooks of an add-on make before an upgrade and after it to an API server. Afterwards the
// cluster has the objects of the newer one, and no others.
func TestAddOnUpgradesOrphanNothing(t *testing.T) {
	short.Skip(t, "a kube-apiserver")
	for name, u := range map[string]struct {
		older, newer []*unstructured.Unstructured
		pruned       []string
	}{
		"flannel from the version before": {flannelBefore(t), flannelObjects(t, releases.Newest("flannel").Version), nil},
		"velero without its schedule and without volumes": {
			veleroObjects(t, hook.Variables{"VELERO_SCHEDULE": "0 2 * * *"}), veleroObjects(t, hook.Variables{"VELERO_VOLUMES": ""}),
			[]string{"DaemonSet velero/node-agent", "Schedule velero/cluster"},
		},
	} {
		t.Run(name, func(t *testing.T) { checkUpgrade(t, u.older, u.newer, u.pruned) })
	}
}

// flannelBefore are the objects of the version before the newest.
func flannelBefore(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	var versions []string
	for _, r := range releases.Of("flannel", releases.Shipped) {
		versions = append(versions, r.Version)
	}
	if len(versions) < 2 {
		t.Fatalf("flannel has the versions %v, want two", versions)
	}
	return flannelObjects(t, versions[len(versions)-2])
}

func flannelObjects(t *testing.T, version string) []*unstructured.Unstructured {
	t.Helper()
	return builtByHooks(t, hooksRun{name: "flannel", version: version, options: hook.Variables{"KUBERNETES_API_ENDPOINT": "10.0.0.1:6443", "POD_CIDR": "10.244.0.0/16"}})
}

func veleroObjects(t *testing.T, options hook.Variables) []*unstructured.Unstructured {
	t.Helper()
	return builtByHooks(t, veleroRun(bucketOutside{}, options))
}

func builtByHooks(t *testing.T, r hooksRun) []*unstructured.Unstructured {
	t.Helper()
	dir, said, err := r.call(t)
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	objects, err := render.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// checkUpgrade compares the cluster after an upgrade with one that had only the newer objects.
func checkUpgrade(t *testing.T, older, newer []*unstructured.Unstructured, pruned []string) {
	cluster, err := kube.Connect(shared.Config(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	k, set := kube.New(cluster, kube.Options{}), kube.Set{Name: "upgraded"}
	apply := func(objects []*unstructured.Unstructured) kube.Result {
		t.Helper()
		result, err := k.Apply(t.Context(), set, objects, kube.ApplyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	remove := func() {
		t.Helper()
		if _, err := k.Delete(t.Context(), set, kube.DeleteOptions{Protected: true}); err != nil {
			t.Fatal(err)
		}
	}
	apply(nil) // makes the namespace of records
	remove()
	before := keys(inventory(t, cluster))
	apply(newer)
	want := keys(inventory(t, cluster))
	remove()

	apply(older)
	result := apply(newer)
	if diff := cmp.Diff(want, keys(inventory(t, cluster))); diff != "" {
		t.Errorf("after the upgrade (-newer alone +upgraded):\n%s", diff)
	}
	var gone []string
	for _, entry := range result.Entries {
		if entry.Action == kube.Pruned {
			gone = append(gone, entry.Object.Kind+" "+strings.TrimPrefix(entry.Object.Namespace+"/"+entry.Object.Name, "/"))
		}
		if entry.Action == kube.Created {
			t.Errorf("the upgrade created what the older one had: %s", entry)
		}
	}
	slices.Sort(gone)
	if diff := cmp.Diff(pruned, gone); diff != "" {
		t.Errorf("pruned (-want +got):\n%s", diff)
	}
	changes, err := k.Diff(t.Context(), set, newer, kube.ApplyOptions{})
	if err != nil || changes.Count(kube.Unchanged) != len(newer) {
		t.Errorf("the difference to the cluster is %s, %v", changes.Summary(), err)
	}
	remove()
	if diff := cmp.Diff(before, keys(inventory(t, cluster))); diff != "" {
		t.Errorf("left after the removal (-before +after):\n%s", diff)
	}
	t.Logf("the upgrade: %s", result.Summary())
}
