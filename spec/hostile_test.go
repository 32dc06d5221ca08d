package spec

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// hostile are texts that shells, templates and archives would trip over.
var hostile = []string{
	"$(touch /tmp/owned)", "`touch /tmp/owned`", `"; touch /tmp/owned; "`, "'; touch /tmp/owned; '", "two\nlines\n", "${HOME}", `back\slash`,
	"a b", "*", "-rf", "../../etc", "a,b", "%s%n", "\u2028", "",
}

// hostileDocument writes an Installer with one option of one key.
func hostileDocument(t *testing.T, s section, key string, value any) string {
	t.Helper()
	body := map[string]any{key: value}
	if _, has := body["version"]; !has && !s.versionless {
		body["version"] = "1.2.3"
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": KurlAPIVersion, "kind": Kind, "spec": map[string]any{s.key: body}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestHostileTextIsNotExecuted(t *testing.T) {
	for _, s := range sections() {
		for _, f := range s.all() {
			for _, value := range hostile {
				given := any(value)
				if f.is == list {
					given = []string{value}
				}
				i, err := Parse("installer.yaml", strings.NewReader(hostileDocument(t, s, f.key, given)))
				where := fmt.Sprintf("%s.%s: %q", s.key, f.key, value)
				switch {
				case f.key == "version":
					if err == nil {
						t.Errorf("%s is a version", where)
					}
				case f.is != text && f.is != list:
					if err == nil && f.is != anything && value != "" {
						t.Errorf("%s is %s", where, f.is)
					}
				case err != nil:
					t.Errorf("%s: %v", where, err)
				case f.variable != unexported:
					wantVariable(t, i, f.variableName(s.key), value, f.initial)
				}
			}
		}
	}
}

func wantVariable(t *testing.T, i *Installer, name, want, initial string) {
	t.Helper()
	if want == "" {
		want = initial
	}
	for _, v := range i.Variables() {
		if v.Name == name && v.Value != want {
			t.Errorf("%s is %q, want %q", name, v.Value, want)
		}
	}
}

func TestHostileTextOfForeignAddOnIsNotExecuted(t *testing.T) {
	for _, value := range hostile {
		i, err := Parse("installer.yaml", strings.NewReader(hostileDocument(t, section{key: "myApp"}, "motto", value)))
		if err != nil {
			t.Errorf("%q: %v", value, err)
			continue
		}
		wantVariable(t, i, "MY_APP_MOTTO", value, "")
	}
}

func TestNULIsRefusedWithPosition(t *testing.T) {
	for what, body := range map[string]string{
		"an option of the table": `  kurl: {proxyAddress: "a\0b"}`, "an element of a list": `  velero: {version: "1", serverFlags: ["a\0b"]}`,
		"another's option": `  myApp: {version: "1", motto: "a\0b"}`, "deep in another's option": `  myApp: {version: "1", tree: {leaf: ["a\0b"]}}`,
	} {
		t.Run(what, func(t *testing.T) {
			_, err := Parse("installer.yaml", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n"+body))
			if err == nil || !strings.Contains(err.Error(), "installer.yaml:4:") || !strings.Contains(err.Error(), "NUL") {
				t.Errorf("got %v", err)
			}
		})
	}
}
