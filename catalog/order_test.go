package catalog_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/catalog"
)

// undeclared makes add-ons without an addon.yaml, like kURL's.
func undeclared(names ...string) []catalog.Meta {
	var all []catalog.Meta
	for _, name := range names {
		all = append(all, catalog.Meta{Name: name, Version: "1"})
	}
	return all
}

func declared(name string, requires, after, provides []string) catalog.Meta {
	return catalog.Meta{Name: name, Version: "1", Declared: true, Requires: requires, After: after, Provides: provides}
}

func TestOrder(t *testing.T) {
	const kurl = "containerd kubernetes aws nodeless calico weave flannel antrea rook ekco openebs longhorn minio contour " +
		"registry prometheus kotsadm velero fluentd collectd cert-manager metrics-server sonobuoy goldpinger"
	tests := map[string]struct {
		addons []catalog.Meta
		want   string
	}{
		"nothing":                                  {nil, ""},
		"kURL's add-ons in kURL's order":           {undeclared(strings.Fields(kurl)...), kurl},
		"an unknown add-on last":                   {undeclared("zzz", "goldpinger", "aaa"), "goldpinger aaa zzz"},
		"what is required first":                   {[]catalog.Meta{declared("a", []string{"b"}, nil, nil), declared("b", nil, nil, nil)}, "b a"},
		"a capability's every provider first":      {[]catalog.Meta{declared("a", []string{"disk"}, nil, nil), declared("x", nil, nil, []string{"disk"}), declared("y", nil, nil, []string{"disk"})}, "x y a"},
		"after, when it is there":                  {[]catalog.Meta{declared("a", nil, []string{"b"}, nil), declared("b", nil, nil, nil)}, "b a"},
		"after, when it is not there":              {[]catalog.Meta{declared("a", nil, []string{"gone"}, nil)}, "a"},
		"an add-on that provides what it requires": {[]catalog.Meta{declared("a", []string{"disk"}, nil, []string{"disk"})}, "a"},
		"free choice by name":                      {[]catalog.Meta{declared("c", nil, nil, nil), declared("a", nil, nil, nil), declared("b", nil, nil, nil)}, "a b c"},
		"a capability of an add-on of kURL's":      {append(undeclared("flannel"), declared("app", []string{catalog.PodNetwork}, nil, nil)), "flannel app"},
		"kURL's add-on after a declared one that precedes it": {
			append(undeclared("rook", "containerd"), declared("flannel", nil, []string{"zzz"}, nil), declared("zzz", nil, nil, nil)),
			"containerd zzz flannel rook"},
		"a declaration outweighs kURL's order": {
			append(undeclared("rook"), declared("flannel", []string{"rook"}, nil, nil)), "rook flannel"},
		"the first catalogue": {[]catalog.Meta{
			declared("metrics-server", []string{"pod-network"}, nil, nil),
			declared("local-path-provisioner", []string{"kubernetes"}, nil, []string{"storage"}),
			declared("flannel", []string{"kubernetes"}, nil, []string{"pod-network"}),
			declared("kubernetes", []string{"container-runtime"}, nil, nil),
			declared("containerd", nil, nil, []string{"container-runtime"}),
		}, "containerd kubernetes flannel metrics-server local-path-provisioner"},
		"what runs modules comes after them, and before what needs one": {[]catalog.Meta{
			declared("app", []string{"web"}, nil, nil), declared("operator", nil, nil, []string{catalog.ModuleOperator}),
			isModule(declared("web", []string{"zone"}, nil, nil)), isModule(declared("zone", nil, nil, nil)), declared("other", nil, nil, nil),
		}, "other zone web operator app"},
		"a module that says otherwise": {[]catalog.Meta{
			declared("operator", nil, nil, []string{catalog.ModuleOperator}), isModule(declared("web", []string{catalog.ModuleOperator}, nil, nil)),
			isModule(declared("zone", nil, nil, nil)),
		}, "zone operator web"},
		"a module that needs what needs a module": {[]catalog.Meta{
			declared("operator", nil, nil, []string{catalog.ModuleOperator}), declared("bridge", []string{"web"}, nil, nil),
			isModule(declared("web", nil, nil, nil)), isModule(declared("zone", []string{"bridge"}, nil, nil)),
		}, "web bridge zone operator"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, addons := range [][]catalog.Meta{test.addons, reversed(test.addons)} {
				got, err := catalog.Order(addons)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Join(got, " ") != test.want {
					t.Errorf("got  %s\nwant %s", strings.Join(got, " "), test.want)
				}
			}
		})
	}
}

func TestNeededListsDependencies(t *testing.T) {
	needed, err := catalog.Needed(append(undeclared("calico", "rook"),
		declared("disk", nil, nil, []string{"volumes"}), declared("cache", nil, nil, nil), declared("app", []string{"volumes"}, []string{"cache", "absent"}, nil)))
	if want := map[string]bool{"disk": true, "cache": true, "calico": true}; err != nil || !maps.Equal(needed, want) {
		t.Errorf("got %v, %v, want %v", needed, err, want)
	}
}

func reversed(addons []catalog.Meta) []catalog.Meta {
	addons = slices.Clone(addons)
	slices.Reverse(addons)
	return addons
}

func TestOrderExplains(t *testing.T) {
	tests := map[string]struct {
		addons []catalog.Meta
		want   string
	}{
		"every missing provider": {
			[]catalog.Meta{declared("a", []string{"disk", "net"}, nil, nil), declared("b", []string{"gone"}, nil, nil)},
			"add-on a requires disk, but no add-on here has that name or provides it; add one to the Installer\n" +
				"add-on a requires net, but no add-on here has that name or provides it; add one to the Installer\n" +
				"add-on b requires gone, but no add-on here has that name or provides it; add one to the Installer"},
		"a circle": {
			[]catalog.Meta{declared("a", []string{"disk"}, nil, nil), declared("b", nil, []string{"c"}, []string{"disk"}), declared("c", []string{"a"}, nil, nil), declared("outside", []string{"a"}, nil, nil)},
			"add-ons wait for each other in a circle: a requires disk (provided by b), b comes after c, c requires a; " +
				"remove one of these relations from its addon.yaml"},
		"one add-on twice": {
			[]catalog.Meta{{Name: "a", Version: "1"}, {Name: "a", Version: "2"}},
			"add-on a is listed in two versions, 1 and 2; keep one"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := catalog.Order(test.addons)
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func isModule(m catalog.Meta) catalog.Meta {
	m.Module = true
	return m
}
