package proxy_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/chartplan"
	"github.com/sealift/sealift/helm/release"
)

// testTaken has proxies that may take releases over. Deleting one uninstalls only a release that it has taken, and that nobody has taken
// from it. Its two clusters are one, so two proxies want the same release.
func testTaken(r *room) {
	r.cluster("one", "proxy: old")
	r.cluster("two", "proxy: new")
	r.cluster("three", "proxy: never")
	spec := "clusterSelector: {matchLabels: {proxy: %s}}, releaseName: %s, repoURL: \"" + r.registry + "\", version: %s, options: {takeOwnership: true}"
	owner := func() string {
		got, err := r.helm().Get(r.t.Context(), "web")
		r.must(err)
		return got.Labels[chartplan.OwnerLabel]
	}
	r.proxy("old", "", fmt.Sprintf(spec, "old", "web", "1.0.0"))
	if got, want := r.want("one", "Ready", "True"), owner(); chartplan.Owner(got) != want {
		r.t.Errorf("the owner of the release is %s", want)
	}
	r.proxy("new", "", fmt.Sprintf(spec, "new", "web", "1.0.0"))
	if got, want := r.want("two", "Ready", "True"), owner(); chartplan.Owner(got) != want {
		r.t.Errorf("the release was taken over, and its owner is %s", want)
	}
	r.remove("old")
	if r.data("web") == nil {
		r.t.Error("the former owner of the release has uninstalled it")
	}

	chart, err := release.ReadArchive(archive(r.t, "1.0.0"))
	r.must(err)
	_, err = r.helm().Install(r.t.Context(), "stray", chart, []byte("text: theirs\n"), release.Options{})
	r.must(err)
	r.proxy("never", "", fmt.Sprintf(spec, "never", "stray", "9.9.9"))
	r.want("three", "HelmReleaseReady", "False HelmInstallOrUpgradeFailed")
	r.remove("never")
	if d := r.data("stray"); d["text"] != "theirs" {
		r.t.Errorf("a proxy without a chart was deleted, and the release of somebody else has %v", d)
	}

	r.remove("new")
	if d := r.data("web"); d != nil {
		r.t.Errorf("its owner is deleted, and the release is there: %v", d)
	}
}

// testOnceWithoutChart loses the way to a chart that was installed once, at no version.
func testOnceWithoutChart(r *room) {
	r.cluster("one", "")
	r.proxy("web", "", "clusterSelector: {}, releaseName: web, reconcileStrategy: InstallOnce, repoURL: \""+r.registry+"\"")
	hrp := r.want("one", "Ready", "True")
	r.must(r.Delete(r.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pull", Namespace: r.namespace}}))
	r.must(r.Patch(r.t.Context(), &hrp, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"values": "text: changed"}}`))))
	r.eventually("the release was looked at again", func() (bool, string) {
		h := r.hrps()["one"]
		return h.Status.ObservedGeneration == hrp.Generation && hrp.Generation == h.Generation, fmt.Sprintf("%d %+v", h.Generation, h.Status)
	})
	r.want("one", "Ready", "True")
	if d := r.data("web"); d["version"] != "1.1.0" || d["text"] != "none" {
		r.t.Errorf("the cluster has %v", d)
	}
}
