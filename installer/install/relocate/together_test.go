package relocate_test

import (
	"errors"
	"io"
	"slices"
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
	s.packed("toys", "1.0.0", map[string]string{"namespace.yaml": namespaceOf("toys"), "definition.yaml": definition}, [2]string{"addon.yaml", metaOfApp + "provides: [playthings]\n"})
	kite := "apiVersion: toys.example.org/v1\nkind: Kite\nmetadata: {name: red, namespace: kites}\n"
	s.packed("kites", "1.0.0", map[string]string{"namespace.yaml": namespaceOf("kites"), "kite.yaml": kite},
		[2]string{"addon.yaml", strings.Replace(metaOfApp, "[kubernetes]", "[kubernetes, toys, playthings]", 1)})
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
	s.removesWhatNothingNeeds()
}

// removesWhatNothingNeeds removes the add-on toys, which provides playthings, and kites, which requires both.
func (s *site) removesWhatNothingNeeds() {
	s.Helper()
	prepare := func(names []string, provided ...string) (*relocate.Removal, error) {
		return relocate.PrepareRemoval(s.Context(), s.config, relocate.RemovalOptions{Names: names, Provided: provided})
	}
	for _, provided := range [][]string{nil, {"toys"}, {"playthings"}} {
		_, err := prepare([]string{"toys"}, provided...)
		if _, refused := errors.AsType[*relocate.RefusedError](err); !refused {
			s.Fatalf("provided %q: %v", provided, err)
		}
		for _, need := range []string{"toys", "playthings"} {
			if text := "add-on kites requires " + need + " of add-on toys: remove kites, too, or give --provided " + need; strings.Contains(err.Error(), text) == slices.Contains(provided, need) {
				s.Errorf("provided %q: %v", provided, err)
			}
		}
	}
	if _, err := prepare([]string{"toys"}, "toys", "playthings"); err != nil {
		s.Error(err)
	}
	if _, err := prepare([]string{"kites"}); err != nil {
		s.Error(err)
	}
	both, err := prepare([]string{"toys", "kites", "toys"})
	if err != nil {
		s.Fatal(err)
	}
	if plan := both.Plan(); len(plan) != 2 || plan[0].Name != "kites" || plan[1].Name != "toys" {
		s.Errorf("%+v", plan)
	}
	if _, err := both.Run(s.Context(), io.Discard); err != nil {
		s.Error(err)
	}
	if left := append(s.records("kites"), s.records("toys")...); len(left) > 0 {
		s.Errorf("%+v", left)
	}
}

// TestProviderNeedNotBeInTheBundle applies an add-on that requires a capability from a package of its own.
func TestProviderNeedNotBeInTheBundle(t *testing.T) {
	s := newSite(t)
	s.mustApply(s.options(s.packed("shelves", "1.0.0", map[string]string{"namespace.yaml": namespaceOf("shelves")}, [2]string{"addon.yaml", metaOfApp + "provides: [room]\n"}), "shelves"))
	s.mustApply(s.options(s.packed("books", "1.0.0", map[string]string{"namespace.yaml": namespaceOf("books")},
		[2]string{"addon.yaml", strings.Replace(metaOfApp, "[kubernetes]", "[kubernetes, room]", 1)}), "books"))
}
