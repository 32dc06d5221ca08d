package comparison_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sealift/sealift/builder/comparison"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/manifest"
)

// version is one version of an add-on with an image.
type version struct{ tag, ssl, net, license, object, option string }

func (v version) open(t testing.TB) *bundle.Archive {
	t.Helper()
	program := string(fixture.GoProgram("go1.26.1", "path example.org/tool", "dep golang.org/x/net "+v.net+" h1:a"))
	a, err := bundle.Open(fixture.ImagePackage(t, map[string][][]byte{"example.org/app:" + v.tag: {fixture.Layer(t, [2]string{"etc/os-release", "ID=alpine\nVERSION_ID=3.20\n"},
		[2]string{"lib/apk/db/installed", "P:ssl\nV:" + v.ssl + "\nA:x86_64\nL:" + v.license + "\n"}, [2]string{"tool", program})}},
		map[string][]byte{
			"Manifest": []byte("image app example.org/app:" + v.tag + "\n"), "install.sh": []byte("function app() { :; }\n"),
			"addon.yaml":   []byte("description: x\noptions: {" + v.option + ": {type: string}}\n"),
			"objects.yaml": []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + v.object + ", namespace: web}\n"),
		}, bundle.WriteOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func between(t testing.TB, was, now *bundle.Archive) *comparison.Difference {
	t.Helper()
	d, err := comparison.Between(t.Context(), was, now, comparison.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func first() version { return version{"1", "1-r0", "v0.1.0", "MIT", "a", "color"} }

func TestEachKindOfChangeIsListed(t *testing.T) {
	was := first()
	for name, row := range map[string]struct {
		now  version
		list func(*comparison.Difference) []manifest.Change
		want []string // beginnings
	}{
		"an image":    {version{"2", "1-r0", "v0.1.0", "MIT", "a", "color"}, func(d *comparison.Difference) []manifest.Change { return d.Images }, []string{"example.org/app: 2 sha256:"}},
		"a package":   {version{"1", "2-r0", "v0.1.0", "MIT", "a", "color"}, func(d *comparison.Difference) []manifest.Change { return d.Software }, []string{"package ssl of alpine-3.20 x86_64: 2-r0, was 1-r0"}},
		"a module":    {version{"1", "1-r0", "v0.2.0", "MIT", "a", "color"}, func(d *comparison.Difference) []manifest.Change { return d.Software }, []string{"module golang.org/x/net: v0.2.0, was v0.1.0"}},
		"a license":   {version{"1", "1-r0", "v0.1.0", "GPL-3.0-only", "a", "color"}, func(d *comparison.Difference) []manifest.Change { return d.Licenses }, []string{"package ssl of alpine-3.20: GPL-3.0-only, was MIT"}},
		"an object":   {version{"1", "1-r0", "v0.1.0", "MIT", "b", "color"}, func(d *comparison.Difference) []manifest.Change { return d.Objects }, []string{"app: ConfigMap web/b: new, v1", "app: ConfigMap web/a: no longer needed, was v1"}},
		"an option":   {version{"1", "1-r0", "v0.1.0", "MIT", "a", "size"}, func(d *comparison.Difference) []manifest.Change { return d.Options }, []string{"app.size: new, string", "app.color: no longer needed"}},
		"the version": {was, func(d *comparison.Difference) []manifest.Change { return d.AddOns }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := between(t, was.open(t), row.now.open(t))
			changes := row.list(d)
			if len(changes) != len(row.want) || len(d.Unknown) > 0 {
				t.Fatalf("got %v, unknown %q", changes, d.Unknown)
			}
			for n, change := range changes {
				if !strings.HasPrefix(change.String(), row.want[n]) {
					t.Errorf("got %s, want %s", change, row.want[n])
				}
			}
		})
	}
}

func TestSameBundlesDifferInNothing(t *testing.T) {
	a := first().open(t)
	d := between(t, a, a)
	if !d.Empty() {
		t.Errorf("got %+v", d)
	}
	var page bytes.Buffer
	if err := d.WritePage(&page); err != nil || !strings.Contains(page.String(), "<p>Nothing changed.</p>") {
		t.Errorf("%v, %s", err, &page)
	}
}

// TestPageIsReproducibleAndEscaped uses a hostile version string.
func TestPageIsReproducibleAndEscaped(t *testing.T) {
	changed := first()
	changed.ssl = "<script>alert(1)</script>"
	was, now := first().open(t), changed.open(t)
	var pages, documents [2]bytes.Buffer
	for n := range pages {
		d := between(t, was, now)
		if err := d.WritePage(&pages[n]); err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(&documents[n]).Encode(d); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(pages[0].Bytes(), pages[1].Bytes()) || !bytes.Equal(documents[0].Bytes(), documents[1].Bytes()) {
		t.Error("the second result is another")
	}
	if text := pages[0].String(); strings.Contains(text, "<script>") || !strings.Contains(text, "&lt;script&gt;alert(1)") {
		t.Errorf("got %s", text)
	}
}
