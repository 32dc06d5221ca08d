package upstream_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/builder/upstream"
	"github.com/sealift/sealift/catalog/origin"
	"github.com/sealift/sealift/catalog/template"
)

func TestNextVersionIsChosen(t *testing.T) {
	newer := catalogueFiles()
	newer["containerd/2.4.2/Manifest"] = "asset c https://files.example.org/v2.4.2\n"
	for name, test := range map[string]struct {
		files          map[string]string
		addOn, version string
		given          map[string]string
		query          upstream.Query
		want           upstream.Update
		err            string
	}{
		"the newest": {addOn: "containerd", want: upstream.Update{AddOn: "containerd", Version: "2.4.2", Options: template.Options{From: "2.2.1", Set: map[string]string{}}}},
		"the newest patch": {addOn: "containerd", query: upstream.Query{Within: origin.MinorLine},
			want: upstream.Update{AddOn: "containerd", Version: "2.2.9", Options: template.Options{From: "2.2.1", Set: map[string]string{}}}},
		"the newest that breaks no rule, with what belongs to it": {addOn: "kubernetes",
			want: upstream.Update{AddOn: "kubernetes", Version: "1.35.7", Options: template.Options{From: "1.35.4", Set: map[string]string{"ETCD": "1.35.7-etcd", "CNI": "v1.10.0"}}}},
		"the next line once its needs are met": {files: newer, addOn: "kubernetes",
			want: upstream.Update{AddOn: "kubernetes", Version: "1.37.2", Options: template.Options{From: "1.36.3", Set: map[string]string{"ETCD": "1.37.2-etcd", "CNI": "v1.10.0"}}}},
		"given values": {addOn: "kubernetes", version: "1.35.7", given: map[string]string{"etcd": "9", "CNI": "v1.9.1"},
			want: upstream.Update{AddOn: "kubernetes", Version: "1.35.7", Options: template.Options{From: "1.35.4", Set: map[string]string{"etcd": "9", "CNI": "v1.9.1"}}}},
		"an ignored parameter": {addOn: "kubernetes", version: "1.35.7", query: upstream.Query{Ignore: []upstream.Ignore{{AddOn: "kubernetes", Parameter: "CNI"}}},
			want: upstream.Update{AddOn: "kubernetes", Version: "1.35.7", Options: template.Options{From: "1.35.4", Set: map[string]string{"ETCD": "1.35.7-etcd"}}}},
		"a skipped line": {files: newer, addOn: "kubernetes", version: "1.38.0", err: "kubernetes 1.38.0 was not written: kubernetes 1.38.0 skips 1.37"},
		"skew":           {addOn: "kubernetes", version: "1.37.0", err: "needs containerd 2.3.0 or newer, and the newest here is 2.2.1: update containerd first"},
		"a rule of the catalogue": {addOn: "containerd", version: "1.4.9",
			err: "containerd 1.4.9 was not written: containerd.version 1.4.9 does not go with kubernetes.version 1.36.3: Kubernetes 1.26 and later need the first version of the CRI, which containerd has from 1.6 on: use containerd 1.6 or later"},
		"an unknown version":                  {addOn: "containerd", version: "2.9.9", err: "upstream has no containerd 2.9.9; its newest are 2.4.2, 2.2.9, 2.2.1, 1.7.9, 1.4.9"},
		"an unknown add-on":                   {addOn: "containerdd", err: `no add-on containerdd with a template (did you mean "containerd"?)`},
		"an add-on without a rule":            {addOn: "bare", err: "does not say where its versions come from"},
		"a value that nobody knows":           {addOn: "kubernetes", version: "1.36.3", err: "find the value of ETCD: url https://page.example.org/v${VERSION}/constants.go: http"},
		"nothing newer, since it is ignored":  {addOn: "containerd", query: upstream.Query{Ignore: []upstream.Ignore{{AddOn: "containerd"}}}, err: "containerd 2.2.1 is the newest version that upstream has"},
		"nothing that the rules allow":        {addOn: "kubernetes", query: upstream.Query{Ignore: []upstream.Ignore{{AddOn: "kubernetes", Version: "1.35.*"}}}, err: "kubernetes 1.37.2 was not written: "},
		"a typing error in what to leave out": {addOn: "containerd", query: upstream.Query{Ignore: []upstream.Ignore{{AddOn: "container"}}}, err: "no add-on container to ignore"},
	} {
		t.Run(name, func(t *testing.T) {
			w := usualWorld(t)
			w.put(map[string]string{"api.github.com/repos/c/c/releases": releasePage("v2.4.2", "v2.2.9", "v2.2.1", "v1.7.9", "v1.4.9")})
			files := test.files
			if files == nil {
				files = catalogueFiles()
			}
			before := maps.Clone(test.given)
			got, err := w.source(t).Next(t.Context(), open(t, files), test.addOn, test.version, test.given, test.query)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got  %v\nwant %s", err, test.err)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
			if !maps.Equal(before, test.given) {
				t.Errorf("the given values changed: %v", test.given)
			}
		})
	}
}

func TestWithdrawnVersionIsRefused(t *testing.T) {
	w := newWorld(t)
	w.put(map[string]string{
		"proxy.golang.org/example.org/m/@v/list":       "v1.0.0\nv1.1.0\n",
		"proxy.golang.org/example.org/m/@v/v1.1.0.mod": "module example.org/m\nretract v1.1.0 // loses data\n",
	})
	c := open(t, map[string]string{
		"m/template/Manifest.tmpl": "asset m https://files.example.org/${VERSION}\n",
		"m/template/addon.yaml":    "upstream: {VERSION: {module: example.org/m, tag: v*}}\n",
		"m/1.0.0/Manifest":         "asset m https://files.example.org/1.0.0\n",
	})
	var refused *upstream.RefusedError
	if _, err := w.source(t).Next(t.Context(), c, "m", "1.1.0", nil, upstream.Query{}); !errors.As(err, &refused) || !strings.Contains(err.Error(), "upstream withdrew 1.1.0: retracted loses data") {
		t.Errorf("got %v", err)
	}
	var current *upstream.CurrentError
	if _, err := w.source(t).Next(t.Context(), c, "m", "", nil, upstream.Query{}); !errors.As(err, &current) {
		t.Errorf("got %v", err)
	}
}
