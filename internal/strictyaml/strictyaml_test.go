package strictyaml_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/internal/strictyaml"
)

func TestValueQuotesAmbiguousScalars(t *testing.T) {
	const text = `
text: abc
quoted: "1"
folded: >
  a
  b
date: 2025-10-15
old boolean: yes
boolean: true
integer: -7
hexadecimal: 0x10
whole: 1e3
fraction: 1.50
beyond: 18446744073709551616
infinite: .inf
nothing: ~
list: [1, [], {a: null}]
`
	want := map[string]any{
		"text": "abc", "quoted": "1", "folded": "a b\n", "date": "2025-10-15", "old boolean": "yes", "boolean": true,
		"integer": int64(-7), "hexadecimal": int64(16), "whole": int64(1000), "fraction": 1.5,
		"beyond": "18446744073709551616", "infinite": ".inf", "nothing": nil,
		"list": []any{int64(1), []any{}, map[string]any{"a": nil}},
	}
	r := strictyaml.Reader{Name: "f"}
	root := r.Mapping([]byte(text))
	if root == nil {
		t.Fatal(r.Err())
	}
	if diff := cmp.Diff(want, strictyaml.Value(root)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestFieldsNamesEveryUnknownKeyWithItsPlace(t *testing.T) {
	r := strictyaml.Reader{Name: "f"}
	fields := r.Fields(r.Mapping([]byte("mirrors: {}\n  # a comment\ntragets: []\nzzz: 1\n")), "the file", "mirrors", "targets")
	if len(fields) != 1 || !r.IsMapping(fields["mirrors"], "mirrors") {
		t.Errorf("fields: %v", fields)
	}
	const want = "f:3:1: error: unknown key \"tragets\" in the file (did you mean \"targets\"?)\n" +
		"f:4:1: error: unknown key \"zzz\" in the file (known: mirrors, targets)"
	if err := r.Err(); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestEmptyDocumentsAreSkipped(t *testing.T) {
	for text, row := range map[string]struct {
		empty bool
		err   string
	}{
		"":                       {true, "f: error: the document is empty"},
		" \n# a comment\n":       {true, "f: error: the document is empty"},
		"---\n# a\n---\n...\n":   {true, "f: error: the document is empty"},
		"# a\n---\n---\na: b\n":  {false, ""},
		"a: b\n---\n# c\n---\n":  {false, ""},
		"a: b\n---\n---\nc: d\n": {false, "f:3:1: error: a second document (keep one document per file)"},
		"---\nnull\n":            {false, "f:2:1: error: the document is not a mapping"},
		"---\n''\n":              {false, "f:2:1: error: the document is not a mapping"},
		"a: b\n--- ~\n":          {false, "f:2:1: error: a second document (keep one document per file)"},
		"a: b\n---\n\tc: d\n":    {false, "f:3:1: error: not YAML: found character that cannot start any token"},
	} {
		if got := strictyaml.IsEmpty([]byte(text)); got != row.empty {
			t.Errorf("%q is empty: %t", text, got)
		}
		r := strictyaml.Reader{Name: "f"}
		root, got := r.Mapping([]byte(text)), ""
		if err := r.Err(); err != nil {
			got = err.Error()
		}
		if got != row.err || root == nil != (row.err != "") {
			t.Errorf("%q: %v %q, want %q", text, root, got, row.err)
		}
	}
}

func TestTextKeepsItsSpelling(t *testing.T) {
	for text, want := range map[string]string{"v: 1.20": "1.20", "v: 0x10": "0x10", "v: ~": "", "v: on": "on", `v: "a b"`: "a b"} {
		r := strictyaml.Reader{Name: "f"}
		root := r.Mapping([]byte(text))
		if got := r.Text(root.Content[1], "v"); got != want || r.Err() != nil {
			t.Errorf("%s: got %q, %v, want %q", text, got, r.Err(), want)
		}
	}
}
