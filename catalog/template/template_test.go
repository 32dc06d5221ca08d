package template_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/catalog/template"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/fixture"
)

func demo() map[string]string {
	return map[string]string{
		"demo/template/Manifest.tmpl":            "image app example.org/app:v${VERSION}\nimage db example.org/db:${DB_TAG}\napt socat\n",
		"demo/template/install.sh":               "demo() { :; }\n",
		"demo/template/plain/a.yaml":             "a: 1\n",
		"demo/template/yaml/pod.yaml.tmpl":       "image: example.org/db:${DB_TAG} # ${not} ${Parameters}\n",
		"demo/template/yaml/service.yaml":        "kind: Service\n",
		"demo/template/generate.sh":              "exit 1\n",
		"demo/1.9/Manifest":                      "image app example.org/app:v1.9\nimage db example.org/db:16\nimage gone example.org/gone:1\n",
		"demo/1.10/Manifest":                     "image app example.org/app:v1.10\nimage db example.org/db:17-rc\nimage gone example.org/gone:1\n",
		"demo/.1.11.123/Manifest":                "what a killed run left\n",
		"demo/build-images/some/Dockerfile":      "FROM scratch\n",
		"other/1.0/Manifest":                     "apt socat\n",
		"broken/template/Manifest.tmpl":          "imagee app example.org/app:v${VERSION}\n",
		"unfilled/template/Manifest.tmpl":        "image a example.org/a:${B}\nimage c example.org/c:${A}\n",
		"unfilled/1.0/Manifest":                  "image z example.org/z:1\n",
		"several/template/Manifest.tmpl":         "asset x https://example.org/${A}/${A}/${B}\n",
		"several/1.0/Manifest":                   "asset w https://example.org/1/2/3\nasset x https://example.org/4/4/5\n",
		"withoutversions/template/Manifest.tmpl": "image app example.org/app:v${VERSION}\n",
	}
}

func write(t *testing.T, root, name, version string, o template.Options) (template.Version, error) {
	t.Helper()
	tmpl, err := template.Open(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return tmpl.Write(version, o)
}

func TestWrite(t *testing.T) {
	root := fixture.Folder(t, demo())
	v, err := write(t, root, "demo", "1.11", template.Options{})
	if err != nil {
		t.Fatal(err)
	}
	content := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(v.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	t.Run("what is not given is as in the newest version, by number", func(t *testing.T) {
		if got, want := content("Manifest"), "image app example.org/app:v1.11\nimage db example.org/db:17-rc\napt socat\n"; got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
	t.Run("changes are told, in order, and nothing that stayed", func(t *testing.T) {
		var lines []string
		for _, c := range v.Changes {
			lines = append(lines, c.String())
		}
		got := strings.Join(lines, "\n")
		if want := "image app: example.org/app:v1.11, was example.org/app:v1.10\n" +
			"apt socat: new, for debian"; !strings.HasPrefix(got, want) {
			t.Errorf("got %s", got)
		}
		if want := "\nimage gone: no longer needed, was example.org/gone:1"; !strings.HasSuffix(got, want) || strings.Contains(got, "image db") {
			t.Errorf("got %s", got)
		}
	})
	t.Run("files without parameters are links, and so are whole directories of them", func(t *testing.T) {
		for name, want := range map[string]string{
			"install.sh": "../template/install.sh", "plain": "../template/plain", "yaml/service.yaml": "../../template/yaml/service.yaml",
		} {
			if got, err := os.Readlink(filepath.Join(v.Dir, name)); err != nil || got != want {
				t.Errorf("%s leads to %q, want %q, %v", name, got, want, err)
			}
		}
		if content("plain/a.yaml") != "a: 1\n" || content("yaml/service.yaml") != "kind: Service\n" {
			t.Error("links do not lead to the files of the template")
		}
	})
	t.Run("only words in capitals are parameters", func(t *testing.T) {
		if got, want := content("yaml/pod.yaml"), "image: example.org/db:17-rc # ${not} ${Parameters}\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("generators and templates are not in a version", func(t *testing.T) {
		for _, name := range []string{"generate.sh", "Manifest.tmpl", "yaml/pod.yaml.tmpl"} {
			if _, err := os.Lstat(filepath.Join(v.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("a version that is there is refused and stays", func(t *testing.T) {
		_, err := write(t, root, "demo", "1.11", template.Options{Set: map[string]string{"db-tag": "99"}})
		if err == nil || !strings.Contains(err.Error(), "already exists") || strings.Contains(content("Manifest"), "99") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("parameters of another version, and given ones", func(t *testing.T) {
		v, err := write(t, root, "demo", "1.9.1", template.Options{From: "1.9"})
		if err != nil || v.Parameters["DB_TAG"] != "16" || v.From != "1.9" || v.ComparedTo != "1.11" {
			t.Errorf("got %+v, %v", v, err)
		}
		v, err = write(t, root, "demo", "1.9.2", template.Options{From: "1.9", Set: map[string]string{"db-tag": "16.2"}})
		if err != nil || v.Parameters["DB_TAG"] != "16.2" {
			t.Errorf("got %+v, %v", v, err)
		}
	})
	t.Run("a first version has nothing to be compared to", func(t *testing.T) {
		v, err := write(t, root, "withoutversions", "1.0", template.Options{})
		if err != nil || v.ComparedTo != "" || len(v.Changes) != 0 {
			t.Errorf("got %+v, %v", v, err)
		}
	})
	t.Run("a parameter has one value in a line", func(t *testing.T) {
		v, err := write(t, root, "several", "2.0", template.Options{From: "1.0"})
		if err != nil || v.Parameters["A"] != "4" || v.Parameters["B"] != "5" {
			t.Errorf("got %+v, %v", v, err)
		}
	})
}

func TestWriteRefuses(t *testing.T) {
	root := fixture.Folder(t, demo())
	tests := map[string]struct {
		addOn, version string
		options        template.Options
		message        string
	}{
		"a version that leads elsewhere":     {"demo", "../2.0", template.Options{}, "is not the name of a version"},
		"a hidden version":                   {"demo", ".2", template.Options{}, "is not the name of a version"},
		"the template as a version":          {"demo", "template", template.Options{}, "is not the name of a version"},
		"a parameter that there is not":      {"demo", "2.0", template.Options{Set: map[string]string{"db-tagg": "1"}}, `no parameter DB_TAGG (did you mean "DB_TAG"?)`},
		"the version as a parameter":         {"demo", "2.0", template.Options{Set: map[string]string{"version": "1"}}, "is the version itself"},
		"a value that would be two words":    {"demo", "2.0", template.Options{Set: map[string]string{"db-tag": "1 no_remote_load"}}, "is not one word"},
		"a value that would be two lines":    {"demo", "2.0", template.Options{Set: map[string]string{"db-tag": "1\nasset"}}, "is not one word"},
		"parameters of a version not there":  {"demo", "2.0", template.Options{From: "0.1"}, "read the parameters of version 0.1"},
		"a Manifest with mistakes":           {"broken", "2.0", template.Options{}, `template/Manifest.tmpl:1:1: error: `},
		"parameters that nobody gives, all":  {"unfilled", "2.0", template.Options{}, "no value for A, B"},
		"parameters of which some are given": {"unfilled", "2.0", template.Options{Set: map[string]string{"a": "1"}}, "no value for B"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before, _ := os.ReadDir(filepath.Join(root, test.addOn))
			_, err := write(t, root, test.addOn, test.version, test.options)
			if err == nil || !strings.Contains(err.Error(), test.message) {
				t.Errorf("got %v, want %q", err, test.message)
			}
			if after, _ := os.ReadDir(filepath.Join(root, test.addOn)); len(after) != len(before) {
				t.Errorf("something was left behind: %v", after)
			}
		})
	}
	t.Run("a template that is not text", func(t *testing.T) {
		root := fixture.Folder(t, map[string]string{"x/template/Manifest.tmpl": "image \xd4 ${A}\n"})
		if _, err := template.Open(filepath.Join(root, "x")); err == nil || !strings.Contains(err.Error(), "is not UTF-8") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an add-on without a template", func(t *testing.T) {
		if _, err := template.Open(filepath.Join(root, "other")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
}

// The shipped versions equal the output of their templates with the parameters that the table of releases has.
func TestShippedVersionsFollowTheirTemplates(t *testing.T) {
	for _, r := range releases.All() {
		if r.Use < releases.Shipped {
			continue
		}
		tmpl, err := template.Open(filepath.Join("../../addons", r.Name))
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]string{template.VersionParameter: r.Version}
		for key, value := range r.With {
			values[strings.ReplaceAll(strings.ToUpper(key), "-", "_")] = value
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(values)), tmpl.Parameters()); diff != "" {
			t.Errorf("%s %s: releases.txt does not name the template's parameters: %s", r.Name, r.Version, diff)
		}
		filled, err := tmpl.Fill(values)
		if err != nil {
			t.Fatal(err)
		}
		for below, text := range filled {
			shipped, err := os.ReadFile(filepath.Join("../..", r.Folder(), below))
			if err != nil || text != string(shipped) {
				t.Errorf("%s/%s is not what releases.txt and the template give: %v\n%s", r.Folder(), below, err, cmp.Diff(text, string(shipped)))
			}
		}
	}
}

// Whatever a template and its parameters are, the parameters read back from a version can be filled in again.
func FuzzFillAndReadBack(f *testing.F) {
	f.Add("image a example.org/a:${A}\nimage b example.org/${B}:${A}", "1.0", "b")
	f.Add("${A}${B} ${", "x", "$")
	f.Add("(${A}[*", "(", ")")
	f.Fuzz(func(t *testing.T, text, a, b string) {
		if !utf8.ValidString(text) || !utf8.ValidString(a) || !utf8.ValidString(b) || strings.ContainsAny(a+b, " \t\r\n\v\f\x00") || strings.Contains(text, "${VERSION}") || a == "" || b == "" {
			t.Skip()
		}
		root := fixture.Folder(t, map[string]string{"x/template/Manifest.tmpl": text})
		tmpl, err := template.Open(filepath.Join(root, "x"))
		if err != nil {
			t.Fatal(err)
		}
		filled, err := tmpl.Fill(map[string]string{"A": a, "B": b})
		if err != nil {
			t.Skip() // it has other parameters
		}
		path := filepath.Join(root, "x", "1", "Manifest")
		if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(filled["Manifest"]), 0o644)); err != nil {
			t.Fatal(err)
		}
		values, err := tmpl.Values("1")
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range values {
			if value == "" || strings.ContainsAny(value, " \n") {
				t.Errorf("%s=%q", name, value)
			}
		}
	})
}
