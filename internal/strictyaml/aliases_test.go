package strictyaml_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/strictyaml"
)

func TestAliasesAreExpanded(t *testing.T) {
	for text, want := range map[string]string{
		"a: &x {k: [1, 2]}\nb: *x\n":                                            `{a: {k: [1, 2]}, b: {k: [1, 2]}}`,
		"- &x a\n- [*x, {*x : *x}]\n":                                           `[a, [a, {a: a}]]`,
		"a: &x {k: 1, l: 2}\nb: {<<: *x, k: 3}\n":                               `{a: {k: 1, l: 2}, b: {k: 3, l: 2}}`,
		"- &x {k: 1}\n- &y {k: 2, l: 2}\n- <<: [*x, *y]\n  m: 3\n":              `[{k: 1}, {k: 2, l: 2}, {m: 3, k: 1, l: 2}]`,
		"a: &x {k: 1}\nb: &y {<<: *x}\nc: {<<: *y}\n":                           `{a: {k: 1}, b: {k: 1}, c: {k: 1}}`,
		"a: &x {k: 1}\nb: {<<: {l: 2}, <<: *x}\n":                               `{a: {k: 1}, b: {l: 2, k: 1}}`,
		"a: &x 1\nb: &x 2\nc: *x\n":                                             `{a: 1, b: 2, c: 2}`,
		"a: '<<'\n":                                                             `{a: "<<"}`,
		"[" + strings.TrimSuffix(strings.Repeat("&x a, *x, ", 100), ", ") + "]": "[" + strings.TrimSuffix(strings.Repeat("a, a, ", 100), ", ") + "]",
	} {
		aliases, plain := strictyaml.Reader{Name: "f"}, strictyaml.Reader{Name: "plain"}
		got, expected := aliases.Any([]byte(text)), plain.Any([]byte(want))
		if got == nil || expected == nil {
			t.Errorf("%q: %v, %v", text, aliases.Err(), plain.Err())
			continue
		}
		if diff := cmp.Diff(strictyaml.Value(expected), strictyaml.Value(got)); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", text, diff)
		}
	}
}

// TestAliasIsACopy: who changes one place changes no other.
func TestAliasIsACopy(t *testing.T) {
	r := strictyaml.Reader{Name: "f"}
	root := r.Mapping([]byte("a: &x {k: 1}\nb: *x\n"))
	strictyaml.Child(strictyaml.Child(root, "b"), "k").Value = "2"
	if got := strictyaml.Child(strictyaml.Child(root, "a"), "k").Value; got != "1" {
		t.Errorf("a.k is %s", got)
	}
}

// laughs is a list of lists, each of which repeats the one before ten times.
func laughs(n int) string {
	text := "- &a0 ha\n"
	for i := range n {
		text += fmt.Sprintf("- &a%d [%s]\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	return text
}

func TestAliasesAreBounded(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"many laughs":           {laughs(60), "f:6:23: error: the aliases up to here add more than 50000 values or 4 MiB (repeat less)"},
		"a long text, repeated": {"- &x " + strings.Repeat("x", 1<<20) + strings.Repeat("\n- *x", 5), "f:6:3: error: the aliases up to here add more than 50000 values or 4 MiB (repeat less)"},
		"a list in itself":      {"a: &x [1, *x]", `f:1:11: error: the value of anchor "x" contains itself (write the value out)`},
		"a merge of itself":     {"a: &x {<<: *x}", `f:1:12: error: the value of anchor "x" contains itself (write the value out)`},
		"no anchor":             {"a: *x", "f: error: not YAML: yaml: unknown anchor 'x' referenced"},
		"a merge of a list":     {"<<: [1]", "f:1:6: error: << must be a mapping or a list of mappings (name an anchor, as in <<: *defaults)"},
		"a merge of a text":     {"<<: a", "f:1:5: error: << must be a mapping or a list of mappings (name an anchor, as in <<: *defaults)"},
		"a key twice":           {"a: &x k\nb: {*x : 1, k: 2}", `f:2:13: error: key "k" is already on line 1 (keep one of them)`},
	} {
		r := strictyaml.Reader{Name: "f"}
		if got := r.Any([]byte(row.text)); got != nil || r.Err() == nil || r.Err().Error() != row.want {
			t.Errorf("%s: %v", name, r.Err())
		}
	}
	if r := (strictyaml.Reader{Name: "f"}); r.Any([]byte(laughs(4))) == nil { // 11,110 copies of the last one, 12,340 in all
		t.Error(r.Err())
	}
}

func TestCheckAliasesLeavesOtherMistakesToTheReader(t *testing.T) {
	for _, text := range []string{"", "a: b", "a: [&x", "a: &x 1\nb: *x", "a: *x # &"} {
		if err := strictyaml.CheckAliases([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	var wrong *strictyaml.AliasError
	if _, err := strictyaml.ToJSON([]byte(laughs(9))); !errors.As(err, &wrong) || wrong.At.Line != 6 {
		t.Errorf("got %v", err)
	}
}

// FuzzExpand checks that an expanded document has no alias, and the value that go-yaml reads from the original.
func FuzzExpand(f *testing.F) {
	for _, seed := range []string{laughs(2), laughs(9), "a: &a [*a]", "a: &x {k: 1}\nb: {<<: [*x, {l: 2}], m: &y 3}\nc: {*y : *x}\n", "? &k [a]\n: *k\n", "--- &d {a: &e , b: *e}\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var document yaml.Node
		var before, after any
		if len(text) > 1<<12 || yaml.Unmarshal(text, &document) != nil || len(document.Content) == 0 || strictyaml.Expand(&document) != nil || yaml.Unmarshal(text, &before) != nil {
			return
		}
		plain(&document)
		if err := document.Decode(&after); err != nil {
			if !strings.Contains(err.Error(), "already defined") { // go-yaml does not notice a key that is an alias of another one
				t.Error(err)
			}
			return
		}
		if got, want := fmt.Sprint(after), fmt.Sprint(before); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func plain(n *yaml.Node) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		panic("an alias or anchor is left")
	}
	for _, child := range n.Content {
		plain(child)
	}
}
