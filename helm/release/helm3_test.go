package release_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/sealift/sealift/helm/release"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// helm3 is Helm 3 itself, working in the namespace.
func (w *world) helm3() *action.Configuration {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(file, w.config); err != nil {
		w.t.Fatal(err)
	}
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &file, &w.namespace
	helm3 := new(action.Configuration)
	if err := helm3.Init(flags, w.namespace, "", w.t.Logf); err != nil {
		w.t.Fatal(err)
	}
	return helm3
}

// TestReleaseMovesBetweenHelm3AndSealift installs with Helm 3 itself, upgrades here, and upgrades with Helm 3 again.
func TestReleaseMovesBetweenHelm3AndSealift(t *testing.T) {
	w := newWorld(t)
	helm3 := w.helm3()
	install := action.NewInstall(helm3)
	install.ReleaseName, install.Namespace = "web", w.namespace
	old, err := loader.LoadArchive(bytes.NewReader(fixture.ChartArchive(t, "web", files("1.0.0", nil))))
	if err != nil {
		t.Fatal(err)
	}
	w.must(install.Run(old, map[string]any{"text": "three"}))

	if r := w.wantStatus("web", 1, release.Deployed); r.ServerSide || r.Values["text"] != "three" || r.Version != "1.0.0" {
		t.Errorf("Helm 3's release is read as %+v", r)
	}
	w.must(w.Upgrade(t.Context(), "web", chart(t, "1.1.0", nil), []byte("text: four\n"), release.Options{}))
	if r := w.wantStatus("web", 2, release.Deployed); r.ServerSide || w.text("web") != "four" {
		t.Errorf("upgraded to %+v with text %q", r, w.text("web"))
	}
	object, err := w.objects.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range object.ManagedFields {
		if f.Operation != metav1.ManagedFieldsOperationUpdate {
			t.Errorf("%s has fields by %s, which is not Helm 3's way", f.Manager, f.Operation)
		}
	}

	all, err := action.NewList(helm3).Run()
	if err != nil || len(all) != 1 || all[0].Version != 2 || all[0].Info.Status.String() != release.Deployed {
		t.Errorf("Helm 3 lists %+v, %v", all, err)
	}
	w.must(action.NewUpgrade(helm3).Run("web", old, map[string]any{"text": "five"}))
	if w.wantStatus("web", 3, release.Deployed); w.text("web") != "five" {
		t.Errorf("Helm 3 left text %q", w.text("web"))
	}
}
