package proxy_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

// testMoved takes over the state of upstream's provider: its objects, and a release that Helm 3 made. Then it returns to the old
// one.
func testMoved(r *room) {
	r.cluster("one", "")
	const pause = `{"metadata": {"annotations": {"cluster.x-k8s.io/paused": %s}}}`
	r.proxy("web", caaph.Paused+`: "true"`, `clusterSelector: {}, releaseName: web, repoURL: "`+r.registry+`", version: 1.0.0, valuesTemplate: "text: mine"`)
	helm3 := r.helm3()
	old, err := loader.LoadArchive(bytes.NewReader(archive(r.t, "1.0.0")))
	if err != nil {
		r.t.Fatal(err)
	}
	install := action.NewInstall(helm3)
	install.ReleaseName, install.Namespace, install.CreateNamespace = "web", r.namespace+"-on-clusters", true
	if _, err := install.Run(old, map[string]any{"text": "mine"}); err != nil {
		r.t.Fatal(err)
	}
	hcp := r.hcp("web")
	hrp := &caaph.HelmReleaseProxy{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.namespace, Name: "web-one-x7k2p", Finalizers: []string{caaph.ReleaseFinalizer},
		Labels:      map[string]string{caaph.ClusterLabel: "one", caaph.ChartLabel: "web"},
		Annotations: map[string]string{caaph.Installed: "true"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: caaph.APIVersion, Kind: "HelmChartProxy", Name: "web", UID: hcp.UID, Controller: new(true), BlockOwnerDeletion: new(true),
		}},
	}}
	hrp.Spec.Chart, hrp.Spec.Values = hcp.Spec.Chart, "text: mine"
	hrp.Spec.Credentials.Secret.Namespace, hrp.Spec.TLSConfig.CASecret.Namespace = r.namespace, r.namespace
	hrp.Spec.ClusterRef.APIVersion, hrp.Spec.ClusterRef.Kind = "cluster.x-k8s.io/v1beta2", "Cluster"
	hrp.Spec.ClusterRef.Namespace, hrp.Spec.ClusterRef.Name = r.namespace, "one"
	if err := r.Create(r.t.Context(), hrp); err != nil {
		r.t.Fatal(err)
	}
	r.change("web", fmt.Sprintf(pause, "null"))
	r.wantChart("web", "Ready", "True")
	if got := r.hrps(); len(got) != 1 || got["one"].Name != hrp.Name || got["one"].Status.Revision != 1 {
		r.t.Errorf("moved in, there are %+v", got)
	}
	r.change("web", `{"spec": {"version": "1.1.0"}}`)
	r.eventually("an upgrade", func() (bool, string) {
		h := r.hrps()["one"]
		return h.Status.Revision == 2 && h.Status.Status == "deployed" && r.data("web")["version"] == "1.1.0", fmt.Sprint(h.Status)
	})

	r.change("web", fmt.Sprintf(pause, `"true"`))
	if err := r.Patch(r.t.Context(), hrp, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, pause, `"true"`))); err != nil {
		r.t.Fatal(err)
	}
	list, err := action.NewList(helm3).Run()
	if err != nil || len(list) != 1 || list[0].Version != 2 || list[0].Info.Status.String() != "deployed" {
		r.t.Errorf("Helm 3 lists %v, %v", list, err)
	}
	if _, err := action.NewUpgrade(helm3).Run("web", old, map[string]any{"text": "back"}); err != nil || r.data("web")["text"] != "back" {
		r.t.Errorf("Helm 3 goes on: %v, and the cluster has %v", err, r.data("web"))
	}
}

// helm3 is Helm 3 for the room's clusters.
func (r *room) helm3() *action.Configuration {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(file, r.config); err != nil {
		r.t.Fatal(err)
	}
	namespace := r.namespace + "-on-clusters"
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &file, &namespace
	c := new(action.Configuration)
	if err := c.Init(flags, namespace, "", r.t.Logf); err != nil {
		r.t.Fatal(err)
	}
	return c
}

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

// testPage applies the objects of the documentation as users would.
func testPage(r *room) {
	page, err := os.ReadFile("../../docs/fleet-helm.md")
	if err != nil {
		r.t.Fatal(err)
	}
	blocks := yamlBlock.FindAllSubmatch(page, -1)
	for _, block := range blocks {
		o := new(unstructured.Unstructured)
		if err := yaml.Unmarshal(block[1], &o.Object); err != nil {
			r.t.Fatal(err)
		}
		o.SetNamespace(r.namespace)
		if err := client.WithFieldValidation(r.Client, metav1.FieldValidationStrict).Create(r.t.Context(), o); err != nil {
			r.t.Errorf("%v\n%s", err, block[1])
		}
		r.wantChart(o.GetName(), "HelmReleaseProxySpecsUpToDate", "True UpToDate")
	}
	if len(blocks) < 2 {
		r.t.Errorf("the page has %d objects", len(blocks))
	}
}
