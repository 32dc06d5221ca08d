// Package upstreamfiles tests what Sealift does with files that are not made up: charts, kustomizations and manifests that upstream
// projects give to their users, as they lie in Go modules. They are in the module cache, never in this repository. An add-on of the
// catalogue that has no chart is tested in the same way: what its hooks make is applied and removed.
package upstreamfiles

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/kube/render"
)

// TestMain lets this binary render charts, and stops the control plane.
func TestMain(m *testing.M) {
	sandbox.Main(engine.Tasks()...)
	shared.Main(m)
}

// TestFilesOfLabModulesAreCarriedAndApplied has the modules that the lab needs anyway.
func TestFilesOfLabModulesAreCarriedAndApplied(t *testing.T) {
	short.Skip(t, "a kube-apiserver")
	for _, r := range labRows() {
		t.Run(r.name, r.check)
	}
}

// check runs a row.
func (r row) check(t *testing.T) {
	dir := r.source(t)
	if r.chart != "" {
		r.checkChart(t, dir)
		return
	}
	objects, err := r.objects(t, dir)
	if r.refused != "" {
		if err == nil || !strings.Contains(err.Error(), r.refused) {
			t.Errorf("error %v; want %s", err, r.refused)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	built, err := render.Build(folder(t, objects))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(keys(named(t, objects)), keys(named(t, built))); diff != "" {
		t.Errorf("a kustomization of the objects has others:\n%s", diff)
	}
	text := document(t, built)
	images := found(t, text)
	r.checkImages(t, built, images)
	lintManifests(t, text, images)
	r.checkApplied(t, built)
}

func (r row) checkChart(t *testing.T, dir string) {
	t.Helper()
	name, version, archive := r.pack(t, dir)
	rendered, objects := r.rendered(t, archive, r.release(name))
	images := append(found(t, document(t, objects)), hidden(rendered)...)
	r.checkImages(t, objects, images)
	lintChart(t, r.release(name), version, archive, images)
	r.checkApplied(t, objects)
}
