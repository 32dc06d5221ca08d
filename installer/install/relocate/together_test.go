package relocate_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/install/relocate"
)

const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kites.toys.example.org}
spec:
  group: toys.example.org
  names: {kind: Kite, plural: kites}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// TestAddOnsOfOneCommandBuildOnEachOther has two add-ons: one defines a kind, and the other one requires it and has an object of that kind.
// A bundle carries both.
func TestAddOnsOfOneCommandBuildOnEachOther(t *testing.T) {
	s := newSite(t)
	s.packed("toys", "1.0.0", map[string]string{"namespace.yaml": namespaceOf("toys"), "definition.yaml": definition})
	kite := "apiVersion: toys.example.org/v1\nkind: Kite\nmetadata: {name: red, namespace: kites}\n"
	s.packed("kites", "1.0.0", map[string]string{"namespace.yaml": namespaceOf("kites"), "kite.yaml": kite},
		[2]string{"addon.yaml", strings.Replace(metaOfApp, "[kubernetes]", "[kubernetes, toys]", 1)})
	o := s.options(s.bundled("toys", "kites"), "kites", "toys")
	s.refused(s.options(o.Bundle.Bundle, "kites"), "add-on kites requires toys")
	r, err := relocate.Prepare(t.Context(), s.config, o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if plan := r.Plan(); len(plan) != 2 || plan[0].Name != "toys" || plan[1].Summary() != "3 created" {
		t.Errorf("%+v", plan)
	}
	s.mustApply(o)
	s.mustApply(s.options(o.Bundle.Bundle, "kites"))
}
