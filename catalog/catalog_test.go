package catalog_test

import (
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/spec"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestScanListsAddOnsOldestVersionFirst(t *testing.T) {
	tree := fstest.MapFS{
		"addons/flannel/0.9.1/Manifest":            file(""),
		"addons/flannel/0.26.7/Manifest":           file(""),
		"addons/flannel/0.26.7/addon.yaml":         file("description: Pod network\nprovides: [pod-network]\n"),
		"addons/flannel/template/base/Manifest":    file(""),
		"addons/flannel/build-images/x/Dockerfile": file(""),
		"addons/collectd/v5/Manifest":              file(""),
		"addons/empty/1.0.0/install.sh":            file(""),
		"README.md":                                file(""),
	}
	got, err := catalog.Scan(tree)
	if err != nil {
		t.Fatal(err)
	}
	want := []catalog.Meta{
		{Name: "collectd", Version: "v5"},
		{Name: "flannel", Version: "0.9.1"},
		{Name: "flannel", Version: "0.26.7", Description: "Pod network", Provides: []string{"pod-network"}, Declared: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestScanSortsVersionNumbersNumerically(t *testing.T) {
	want := []string{"1.2", "1.2.0", "1.2.3-4", "1.2.3-10", "1.10", "01.10.1", "10to14", "2025-10-15T17-29-55Z", "latest", "v5", "v10", "ı"}
	tree := fstest.MapFS{}
	for _, v := range want {
		tree["addons/x/"+v+"/Manifest"] = file("")
	}
	all, err := catalog.Scan(tree)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, m.Version)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestScanNamesMistakesOfEveryAddOn(t *testing.T) {
	tree := fstest.MapFS{
		"addons/a/1/Manifest":   file(""),
		"addons/a/1/addon.yaml": file("requries: [b]\n"),
		"addons/b/1/Manifest":   file(""),
		"addons/b/1/addon.yaml": file("after: c\n"),
		"addons/c/1/Manifest":   file(""),
	}
	all, err := catalog.Scan(tree)
	const want = `addons/a/1/addon.yaml:1:1: error: unknown key "requries" in addon.yaml (did you mean "requires"?)
addons/b/1/addon.yaml:1:8: error: after must be a list (write after: [name])`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if len(all) != 1 || all[0].Name != "c" {
		t.Errorf("add-ons that could be read: %v", all)
	}
}

func TestLicenseIsExpressionOfSPDX(t *testing.T) {
	for license, valid := range map[string]bool{"Apache-2.0": true, "(MIT OR Apache-2.0) AND BSD-3-Clause": true, "GPL-2.0-only WITH Classpath-exception-2.0": true, "Apache 2": false, "see LICENSE": false} {
		if m, err := read(t, "description: x\nlicense: "+license+"\n"); valid != (err == nil) || valid && m.License != license {
			t.Errorf("%s: %q, %v", license, m.License, err)
		}
	}
}

func TestSilenceIsBounded(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "silence: 2h\n": 2 * time.Hour, "silence: 1m\n": time.Minute, "silence: 6h\n": catalog.MaxHookTime} {
		if m, err := read(t, "description: x\n"+text); err != nil || m.Silence != want {
			t.Errorf("%q is %s, %v", text, m.Silence, err)
		}
	}
	for _, value := range []string{"0", "-1h", "30", "7h", "59s", "long", "[1h]", "''", "9999999999h"} {
		if _, err := read(t, "silence: "+value+"\n"); err == nil || !strings.Contains(err.Error(), "addon.yaml:1:10: error: silence") {
			t.Errorf("silence: %s: %v", value, err)
		}
	}
}

func TestShippedAddOnsAreReadAndOrdered(t *testing.T) {
	all, err := catalog.Scan(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	newest := map[string]catalog.Meta{}
	for _, m := range all {
		newest[m.Name] = m
	}
	order, err := catalog.Order(slices.Collect(maps.Values(newest)))
	if err != nil {
		t.Fatal(err)
	}
	if len(order) < 2 || order[0] != "containerd" || order[1] != "kubernetes" {
		t.Errorf("order: %v", order)
	}
}

func read(t testing.TB, text string) (catalog.Meta, error) {
	t.Helper()
	return catalog.Read(fstest.MapFS{"addons/x/1/addon.yaml": file(text)}, "x", "1")
}

func TestReadRefuses(t *testing.T) {
	const at = "addons/x/1/addon.yaml:"
	tests := map[string]struct{ text, want string }{
		"a capital in a name":        {"provides: [Disk]\n", at + `1:12: error: bad name "Disk" in provides (lower-case letters, digits and '-')`},
		"a name twice":               {"after: [a, a]\n", at + `1:12: error: after names a twice (keep one of them)`},
		"options that are a list":    {"options: [a]\n", at + `1:10: error: options must be a mapping`},
		"an option without a type":   {"options: {a: {default: 1}}\n", at + `1:14: error: option a has no type (write type: string, or another of string, boolean, integer, number, array, object)`},
		"an unknown type":            {"options: {a: {type: sting}}\n", at + `1:21: error: unknown type "sting" of option a (did you mean "string"?)`},
		"a default of another type":  {"options: {a: {type: integer, default: x}}\n", at + `1:39: error: default of option a is not a value that it allows`},
		"a default outside the enum": {"options: {a: {type: string, enum: [x], default: y}}\n", at + `1:49: error: default of option a is not a value that it allows`},
		"an enum of another type":    {"options: {a: {type: string, enum: [1]}}\n", at + `1:35: error: enum of option a must be a list of values of type string`},
		"a key twice":                {"after: []\nafter: []\n", at + `2:1: error: key "after" is already on line 1 (keep one of them)`},
		"an empty file":              {"", `addons/x/1/addon.yaml: error: the document is empty`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, test.text)
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

// everyType declares an option of each type.
const everyType = `options:
  backend: {type: string, enum: [vxlan, host-gw], default: vxlan}
  mtu: {type: integer}
  ratio: {type: number}
  tls: {type: boolean}
  peers: {type: array}
  labels: {type: object}
`

func TestCheckOptions(t *testing.T) {
	m, err := read(t, everyType)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		options map[string]any
		want    string
	}{
		"none":                     {nil, ""},
		"values of every type":     {map[string]any{"backend": "host-gw", "mtu": int64(1450), "ratio": int64(1), "tls": false, "peers": []any{}, "labels": map[string]any{}}, ""},
		"another package's place":  {map[string]any{"s3Override": "https://x"}, ""},
		"an unknown option":        {map[string]any{"mut": int64(1)}, `add-on x 1: no option "mut" (did you mean "mtu"?)`},
		"the wrong type":           {map[string]any{"mtu": 1.5, "tls": "true"}, `add-on x 1: option mtu must be of type integer; option tls must be of type boolean`},
		"a value outside the enum": {map[string]any{"backend": "udp"}, `add-on x 1: option backend must be one of [vxlan host-gw]`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := m.CheckOptions(test.options); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	t.Run("an add-on that declares no options takes any", func(t *testing.T) {
		if err := (catalog.Meta{Name: "x"}).CheckOptions(map[string]any{"a": "b"}); err != nil {
			t.Error(err)
		}
	})
}

// TestWordsGetDeclaredTypes converts options that came as words of a command line. Options of the Installer's YAML stay as they are.
func TestWordsGetDeclaredTypes(t *testing.T) {
	m, err := read(t, everyType)
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]any{
		"backend=host-gw": "host-gw", "mtu=1450": int64(1450), "mtu=-1": int64(-1), "ratio=0.5": 0.5, "ratio=2": int64(2), "tls=true": true, "tls=0": false,
		"peers=10.0.0.1": []any{"10.0.0.1"}, "peers=a,b": []any{"a", "b"},
		"backend=1": nil, "mtu=1e3": nil, "mtu=1.5": nil, "mtu=0x10": nil, "mtu=99999999999999999999": nil, "ratio=NaN": nil, "tls=yes": nil, "labels={}": nil, "mut=1": nil,
	} {
		key, text, _ := strings.Cut(word, "=")
		given := spec.AddOn{Name: "x", Options: spec.Options{key: text}, Words: []string{key}}
		got, err := m.Typed(given)
		if refused := err != nil; refused != (want == nil) {
			t.Errorf("%s: %v", word, err)
		} else if !refused && !reflect.DeepEqual(got.Options[key], want) {
			t.Errorf("%s: got %#v, want %#v", word, got.Options[key], want)
		}
		if given.Options[key] != text {
			t.Errorf("%s changed the Installer itself", word)
		}
		given.Words = nil
		if _, err := m.Typed(given); (err == nil) != (word == "backend=host-gw") {
			t.Errorf("%s as YAML: %v", word, err)
		}
	}
}

func TestDefaultsFillUnsetOptions(t *testing.T) {
	m, err := read(t, `options:
  backend: {type: string, default: vxlan}
  tls: {type: boolean, default: true}
  mtu: {type: integer}
`)
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]any{"tls": false}
	want := map[string]any{"tls": false, "backend": "vxlan"}
	if got := m.WithDefaults(given); !maps.Equal(got, want) || len(given) != 1 {
		t.Errorf("got %v of %v, want %v", got, given, want)
	}
	if got := m.WithDefaults(nil); !maps.Equal(got, map[string]any{"tls": true, "backend": "vxlan"}) {
		t.Errorf("of nothing: %v", got)
	}
}

// TestMajorMinorReadsVersionPrefix reads versions and other texts.
func TestMajorMinorReadsVersionPrefix(t *testing.T) {
	for version, want := range map[string][2]int{"1.36.3": {1, 36}, "1.19": {1, 19}, "2.0.1-rc.1": {2, 0}, "1.x": {-1, -1}, "v1.2": {-1, -1}, "1": {-1, -1}, "": {-1, -1}} {
		if major, minor := catalog.MajorMinor(version); [2]int{major, minor} != want {
			t.Errorf("%q: %d and %d, not %v", version, major, minor, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("description: x\nprovides: [a]\nrequires: [b]\nafter: [c]\nsilence: 45m\noptions:\n  d: {type: integer, enum: [1, 2], default: 1}\n")
	f.Add("options: {a: {type: object, default: {b: [null, 1.5]}}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := read(t, text)
		if err != nil {
			var errs diag.Errors
			if !errors.As(err, &errs) || len(errs) == 0 {
				t.Fatalf("a mistake without a position: %v", err)
			}
			return
		}
		for key, option := range m.Options {
			if option.Default == nil {
				continue
			}
			if err := m.CheckOptions(map[string]any{key: option.Default}); err != nil {
				t.Errorf("a default is refused: %v", err)
			}
		}
	})
}
