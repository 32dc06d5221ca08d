package hook

import (
	"context"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// FuzzTemplate compares a template with the shell's result: without a dollar and a backslash it is unchanged, and values are in
// the output unchanged.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"a: ${A}\n", `k: '"false"'  "x   y"`, "$(date +%Y)`x`", `\$A \" \\ \`, "${A:-b} ${A:+c} ${A-}", "$", "${", "\"$A"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values := map[string]string{"A": "\x01value $A ${A} $(touch x) \" \\\x01"}
		for _, s := range []style{documentStyle, quotedStyle} {
			var out strings.Builder
			uses := 0
			for _, p := range parseTemplate(text, s) {
				if p.date != nil {
					continue
				}
				if p.variable == "A" && (p.operator == "" || p.operator == ":-" || p.operator == "-") {
					uses++
				}
				out.WriteString(p.value(values))
			}
			if got := strings.Count(out.String(), values["A"]); !strings.Contains(text, "\x01") && got != uses {
				t.Errorf("%s: the value is there %d times, for %d uses: %q", s, got, uses, out.String())
			}
			if s == documentStyle && !strings.ContainsAny(text, `$\`) && out.String() != text {
				t.Errorf("%q became %q", text, out.String())
			}
		}
	})
}

// FuzzKustomization edits any text: the list keeps its content, after the new item.
func FuzzKustomization(f *testing.F) {
	for _, seed := range []string{"", "resources: [a]\n", "resources:\n- a # c\n", "resources: x", "- a", "a: &x {b: *x}", "resources: &r [a]\nx: *r", "!!binary x", "\x00", "%YAML 1.2\n---\na: 1\n"} {
		f.Add(seed, "new.yaml")
	}
	f.Fuzz(func(t *testing.T, text, item string) {
		before := struct{ Resources []string }{}
		broken := yaml.Unmarshal([]byte(text), &before)
		edited, err := editText([]byte(text), func(root *yaml.Node) error { return prepend(root, "resources", scalar(item)) })
		if err != nil || broken != nil {
			return
		}
		after := struct{ Resources []string }{}
		if err := yaml.Unmarshal(edited, &after); err != nil {
			t.Fatalf("%q became %q: %v", text, edited, err)
		}
		if len(after.Resources) != len(before.Resources)+1 {
			t.Errorf("%q became %q", text, edited)
		}
		_, _ = fixKustomization([]byte(text))
	})
}

// FuzzDocument finds documents in any text.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{"metadata: {name: a}\n", "---\n---\nmetadata: {name: a}\n--- # c\nx", "metadata: a", "a: |\n  ---\n", "\xff---"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found, err := documentNamed(text, "a")
		if err == nil && !strings.Contains(text, strings.TrimRight(found, "\n")) {
			t.Errorf("%q is not in %q", found, text)
		}
	})
}

// FuzzVersions compares versions both ways.
func FuzzVersions(f *testing.F) {
	f.Add("1.2.3", "v1.10.0-rc1", "3")
	f.Add("1", "1.0.0.0", "2")
	f.Add("", "x", "-1")
	f.Add("1..2", "1.-2", "99")
	f.Fuzz(func(t *testing.T, a, b, parts string) {
		var there, back strings.Builder
		errThere := compareVersions(context.Background(), []string{parts, a, b}, &there)
		errBack := compareVersions(context.Background(), []string{parts, b, a}, &back)
		if (errThere == nil) != (errBack == nil) {
			t.Fatalf("%v, but %v", errThere, errBack)
		}
		if opposite := map[string]string{"1\n": "-1\n", "-1\n": "1\n", "0\n": "0\n", "": ""}; back.String() != opposite[there.String()] {
			t.Errorf("%q compared to %q is %s, and back %s", a, b, there.String(), back.String())
		}
	})
}
