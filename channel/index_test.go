package channel

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func at(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestParse(t *testing.T) {
	dashboard := Entry{
		Name: "dashboard", Namespace: "kube-system", Version: new("1.4.0"), Selector: map[string]string{"k8s-addon": "dashboard"},
		Manifest: "v1.4.0.yaml", Channel: "c", Location: "https://example.com/channels/v1.4.0.yaml",
	}
	const plain = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	wrapped := Entry{
		Name: "manifest-05d90a1ff44a", Namespace: "kube-system", Manifest: "https://example.com/channels/addons.yaml",
		ManifestHash: "", Channel: "c", Location: "https://example.com/channels/addons.yaml",
	}
	wrapped.Name = "manifest-" + ManifestHash([]byte(wrapped.Location))[:12]
	wrapped.ManifestHash = ManifestHash([]byte(plain))
	tests := []struct {
		name, file string
		want       []Entry
		err        string
	}{
		{"an entry takes its name from the index", "kind: Addons\nmetadata: {name: dashboard}\nspec:\n  addons:\n  - version: 1.4.0\n    selector: {k8s-addon: dashboard}\n    manifest: v1.4.0.yaml\n", []Entry{dashboard}, ""},
		{"only the first document counts", "---\r\n# first\r\n---\r\nkind: Addons\r\nmetadata: {name: dashboard}\r\nspec: {addons: [{version: 1.4.0, selector: {k8s-addon: dashboard}, manifest: v1.4.0.yaml}]}\r\n---\r\n{\r\n", []Entry{dashboard}, ""},
		{"unknown fields are ignored", "kind: Addons\nmetadata: {name: dashboard, labels: {a: b}}\nspec: {color: red, addons: [{version: 1.4.0, shape: round, selector: {k8s-addon: dashboard}, manifest: v1.4.0.yaml}]}\n", []Entry{dashboard}, ""},
		{"all fields are read", `kind: Addons
metadata: {name: x}
spec:
  addons:
  - name: full
    namespace: infra
    version: 1.10
    id: 16
    manifest: https://other.example.com/full.yaml?token=1
    manifestHash: abc
    kubernetesVersion: ">=1.6.0"
    needsRollingUpdate: workers
    needsPKI: true
    prune: {kinds: [{group: apps, kind: Deployment, namespaces: [a, b], labelSelector: app=x, fieldSelector: metadata.name=y}]}
`, []Entry{{Name: "full", Namespace: "infra", Version: new("1.10"), ID: "16", Manifest: "https://other.example.com/full.yaml?token=1", ManifestHash: "abc",
			KubernetesVersion: ">=1.6.0", NeedsRollingUpdate: "workers", NeedsPKI: true, Channel: "c", Location: "https://other.example.com/full.yaml?token=1",
			Prune: &Prune{Kinds: []PruneKind{{Group: "apps", Kind: "Deployment", Namespaces: []string{"a", "b"}, LabelSelector: "app=x", FieldSelector: "metadata.name=y"}}}}}, ""},
		{"keys in any case", "Kind: Addons\nMETADATA: {Name: dashboard}\nspec: {ADDONS: [{Version: 1.4.0, sElector: {k8s-addon: dashboard}, MANIFEST: v1.4.0.yaml}]}\n", []Entry{dashboard}, ""},
		{"the exact spelling of a key goes before others", "kind: Addons\nmetadata: {name: dashboard}\nspec: {addons: [{VERSION: 1.3.0, version: 1.4.0, Version: 1.2.0, selector: {k8s-addon: dashboard}, manifest: v1.4.0.yaml}]}\n", []Entry{dashboard}, ""},
		{"a key in the case of one of kOps's own files", "kind: Addons\nmetadata: {name: a}\nspec: {addons: [{manifest: a, kubernetesversion: '>=1.6.0', needspki: true, Prune: {Kinds: [{Kind: C, labelselector: a=b}]}}]}\n",
			[]Entry{{Name: "a", Namespace: "kube-system", Manifest: "a", KubernetesVersion: ">=1.6.0", NeedsPKI: true, Channel: "c", Location: "https://example.com/channels/a",
				Prune: &Prune{Kinds: []PruneKind{{Kind: "C", LabelSelector: "a=b"}}}}}, ""},
		{"labels keep their case", "kind: Addons\nmetadata: {name: a}\nspec: {addons: [{manifest: a, selector: {Name: B}}]}\n",
			[]Entry{{Name: "a", Namespace: "kube-system", Manifest: "a", Selector: map[string]string{"Name": "B"}, Channel: "c", Location: "https://example.com/channels/a"}}, ""},
		{"a namespace to prune that is a path", "kind: Addons\nmetadata: {name: x}\nspec: {addons: [{manifest: a, prune: {kinds: [{kind: C, namespaces: ['../..']}]}}]}\n", nil, `prune kind "C": namespace "../.."`},
		{"a group to prune that is a path", "kind: Addons\nmetadata: {name: x}\nspec: {addons: [{manifest: a, prune: {kinds: [{kind: C, group: '../v1'}]}}]}\n", nil, `prune kind "C": group "../v1"`},
		{"a label selector that is none", "kind: Addons\nmetadata: {name: x}\nspec: {addons: [{manifest: a, prune: {kinds: [{kind: C, labelSelector: 'a in'}]}}]}\n", nil, `prune kind "C": labelSelector "a in"`},
		{"a file without objects has no add-ons", "\n# nothing\n---\n  \n", nil, ""},
		{"an empty file has no add-ons", "", nil, ""},
		{"an index without entries has no add-ons", "kind: Addons\nmetadata: {name: x}\nspec: {}\n", nil, ""},
		{"a file that is not an index is the manifest of one add-on", plain, []Entry{wrapped}, ""},
		{"blanks around a manifest do not change its hash", "\n\n" + plain + "\n", []Entry{wrapped}, ""},
		{"an Addons with an apiVersion is not an index", "apiVersion: example.com/v1\nkind: Addons\nmetadata: {name: a}\n", []Entry{{Name: wrapped.Name, Namespace: "kube-system", Manifest: wrapped.Manifest,
			ManifestHash: ManifestHash([]byte("apiVersion: example.com/v1\nkind: Addons\nmetadata: {name: a}\n")), Channel: "c", Location: wrapped.Location}}, ""},
		{"invalid YAML", "kind: Addons\nspec: [", nil, "error parsing addons or manifest"},
		{"invalid YAML in a later document of a manifest", plain + "---\na: b: c\n", nil, "error parsing addons or manifest"},
		{"no mapping", "just words\n", nil, "error parsing addons or manifest"},
		{"entries that are not a list", "kind: Addons\nspec: {addons: {a: b}}\n", nil, "error parsing addons or manifest"},
		{"binary", "\x00\x01", nil, "error parsing addons or manifest"},
		{"a missing manifest", "kind: Addons\nmetadata: {name: x}\nspec: {addons: [{version: 1.0.0}]}\n", nil, `addon "x": spec.manifest: Required value`},
		{"a version that is none", "kind: Addons\nmetadata: {name: x}\nspec: {addons: [{version: 1.0.0, manifest: a}, {name: y, version: 1.0-kops, manifest: a}]}\n", nil, `addon "y" has unparseable version "1.0-kops": `},
		{"a version that is empty", "kind: Addons\nmetadata: {name: x}\nspec: {addons: [{version: '', manifest: a}]}\n", nil, `addon "x" has unparseable version "": `},
		{"the version latest", "kind: Addons\nmetadata: {name: x}\nspec: {addons: [{version: latest, manifest: a}]}\n", nil, `addon "x" has unparseable version "latest": `},
		{"a name that no annotation takes", "kind: Addons\nmetadata: {name: 'a b'}\nspec: {addons: [{manifest: a}]}\n", nil, `addon "a b": the name cannot be part of an annotation`},
		{"no name", "kind: Addons\nspec: {addons: [{manifest: a}]}\n", nil, `addon "": the name cannot be part of an annotation`},
		{"a namespace that is none", "kind: Addons\nmetadata: {name: x}\nspec: {addons: [{manifest: a, namespace: A/B}]}\n", nil, `addon "x": namespace "A/B"`},
		{"a manifest that is not a location", "kind: Addons\nmetadata: {name: x}\nspec: {addons: [{manifest: 'http://[::1'}]}\n", nil, `addon "x": manifest "http://[::1" is not a location`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			index, err := Parse([]byte(tt.file), at(t, "https://example.com/channels/addons.yaml"), "c")
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, index.Entries); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRemoteIndexReadsNoLocalFiles(t *testing.T) {
	for _, tt := range []struct {
		name, index, manifest string
		refused               bool
	}{
		{"a file, named by a server", "https://example.com/addons.yaml", "file:///etc/kubernetes/admin.conf", true},
		{"a file, named by a bucket", "s3://bucket/addons.yaml", "file:///etc/kubernetes/admin.conf", true},
		{"a bucket on a server of its choice, named by a server", "https://example.com/addons.yaml", "s3://bucket/a.yaml?endpoint=http://192.0.2.1", true},
		{"a bucket on a server of its choice, named by a bucket", "s3://bucket/addons.yaml?region=x", "a.yaml?endpoint=http://192.0.2.1", true},
		{"a bucket", "https://example.com/addons.yaml", "s3://bucket/a.yaml", false},
		{"another server", "https://example.com/addons.yaml", "https://example.org/a.yaml?b", false},
		{"a bucket, named by a file", "/srv/addons.yaml", "s3://bucket/a.yaml?region=x", false},
		{"a file, named by a file", "file:///srv/addons.yaml", "file:///srv/a.yaml", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte("kind: Addons\nmetadata: {name: x}\nspec: {addons: [{manifest: '"+tt.manifest+"'}]}\n"), at(t, tt.index), "c")
			if (err != nil) != tt.refused {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestSecretsOfLocationsAreNotShown(t *testing.T) {
	location := "https://ship:anchor@example.com/addons.yaml?sig=anchor"
	index, err := Parse([]byte("kind: Addons\nmetadata: {name: x}\nspec: {addons: [{manifest: a.yaml}, {manifest: '"+location+"'}]}\n"), at(t, location), location)
	if err != nil {
		t.Fatal(err)
	}
	_, broken := Parse([]byte("just words\n"), at(t, location), location)
	for _, e := range append(index.Entries, wrap([]byte("a: b"), at(t, location), location).Entries...) {
		if !strings.Contains(e.Location, "ship:anchor@") {
			t.Errorf("%s cannot be asked for", e.Location)
		}
		record, err := e.record().encode()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if all := record + string(text) + broken.Error(); strings.Contains(all, "anchor") || !strings.Contains(all, "example.com") {
			t.Errorf("shown: %s", all)
		}
	}
}

func TestManifestsAreResolvedFromIndex(t *testing.T) {
	for _, tt := range []struct{ index, manifest, want string }{
		{"/srv/channel/addons.yaml", "v1.yaml", "/srv/channel/v1.yaml"},
		{"/srv/channel/addons.yaml", "../other/v1.yaml", "/srv/other/v1.yaml"},
		{"/srv/channel/addons.yaml", "https://example.com/v1.yaml", "https://example.com/v1.yaml"},
		{"file:///srv/addons.yaml", "a/", "file:///srv/a/"},
		{"https://example.com/a/addons.yaml?token=1", "b/v1.yaml", "https://example.com/a/b/v1.yaml"},
		{"s3://bucket/a/addons.yaml?endpoint=http://127.0.0.1:9000", "b/v1.yaml", "s3://bucket/a/b/v1.yaml?endpoint=http://127.0.0.1:9000"},
		{"s3://bucket/a/addons.yaml?region=x", "s3://other/v1.yaml", "s3://other/v1.yaml"},
	} {
		got, err := resolve(at(t, tt.index), tt.manifest)
		if err != nil || got.String() != tt.want {
			t.Errorf("%s from %s is %s (%v), want %s", tt.manifest, tt.index, got, err, tt.want)
		}
	}
}

func TestBootstrapIndexesHaveOneVersion(t *testing.T) {
	err := Index{Entries: []Entry{{Name: "a"}, {Name: "b", KubernetesVersion: ">=1.6.0"}}}.CheckBootstrap()
	if err == nil || err.Error() != `bootstrap addon "b" has a KubernetesVersion` {
		t.Errorf("%v", err)
	}
	if err := (Index{Entries: []Entry{{Name: "a"}}}).CheckBootstrap(); err != nil {
		t.Error(err)
	}
}

func TestMarshalWritesWhatParseReads(t *testing.T) {
	want := Index{Name: "x", Entries: []Entry{{Name: "a", Namespace: "n", Version: new("1.10"), Manifest: "a.yaml", NeedsPKI: true, Prune: &Prune{Kinds: []PruneKind{{Kind: "ConfigMap"}}}}}}
	data, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(data, at(t, "/srv/addons.yaml"), "c")
	if err != nil {
		t.Fatal(err)
	}
	want.Entries[0].Channel, want.Entries[0].Location = "c", "/srv/a.yaml"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestChannelsAreURLs(t *testing.T) {
	for _, tt := range []struct{ name, want, err string }{
		{"https://example.com/addons.yaml", "https://example.com/addons.yaml", ""},
		{"s3://bucket/addons.yaml", "s3://bucket/addons.yaml", ""},
		{"file:///srv/addons.yaml", "file:///srv/addons.yaml", ""},
		{"/srv/addons.yaml", "/srv/addons.yaml", ""},
		{"kubernetes-dashboard", "", "with -f"},
		{"./addons.yaml", "", "Channel format not recognized (did you mean to use `-f` to specify a local file?)"},
		{"kope.io/basic", "", "Channel format not recognized"},
		{"gs://bucket/addons.yaml", "", `scheme "gs" is not supported`},
		{"file://host/addons.yaml", "", "names a host"},
		{"http://[::1", "", "is not a URL"},
	} {
		u, err := ParseChannel(tt.name)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
			}
		} else if err != nil || u.String() != tt.want {
			t.Errorf("%s is %s (%v), want %s", tt.name, u, err, tt.want)
		}
	}
}

// FuzzParse checks invariants of the parser on any file.
func FuzzParse(f *testing.F) {
	f.Add([]byte("kind: Addons\nmetadata: {name: x}\nspec:\n  addons:\n  - version: 1.4.0\n    manifest: v1.4.0.yaml\n"))
	f.Add([]byte("---\r\nkind: Addons\r\nspec: {addons: [{name: a, manifest: b, prune: {kinds: [{kind: C}]}}]}\r\n---\r\n"))
	f.Add([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"))
	f.Add([]byte("Kind: Addons\nspec: &a {Addons: [{<<: &b {Name: a}, manifest: b, <<: *b}], x: *a}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("? [a]\n: b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		index, err := Parse(data, &url.URL{Path: "/srv/addons.yaml"}, "c")
		if err != nil {
			return
		}
		for _, e := range index.Entries {
			if e.Name == "" || e.Namespace == "" || e.Manifest == "" || e.Location == "" || e.Channel != "c" {
				t.Fatalf("incomplete entry %+v", e)
			}
		}
		text, err := index.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text, &url.URL{Path: "/srv/addons.yaml"}, "c")
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if diff := cmp.Diff(index.Entries, again.Entries, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestIndexSizeIsBounded(t *testing.T) {
	text := "kind: Addons\nmetadata: {name: x}\nspec:\n  addons:\n" + strings.Repeat("  - {manifest: a}\n", maxIndex/16)
	if _, err := Parse([]byte(text), at(t, "/srv/addons.yaml"), "c"); err == nil || !strings.Contains(err.Error(), "more than the limit of 8") {
		t.Errorf("%v", err)
	}
}

// TestPlansAreLinear has so many add-ons that comparing each with each takes minutes, and once through all of them less than a
// second. The bound in between is one that no busy machine reaches.
func TestPlansAreLinear(t *testing.T) {
	entries := make([]Entry, 300_000)
	for i := range entries {
		entries[i] = Entry{Name: fmt.Sprintf("addon-%d", i), Namespace: DefaultNamespace, Manifest: "a"}
	}
	start := time.Now()
	plan, err := NewPlan(entries, "v1.36.3", nil)
	if err != nil || len(plan.Addons) != len(entries) {
		t.Errorf("%d add-ons: %v", len(plan.Addons), err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("%d add-ons took %s", len(entries), took)
	}
}
