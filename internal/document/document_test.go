package document_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/internal/document"
)

func TestAllReadsEveryDocument(t *testing.T) {
	for stream, want := range map[string]string{
		"":                                     `null`,
		"# nothing\n":                          `null`,
		"---\n---\na: 1\n":                     `[null,{"a":1}]`,
		"--- {a: 1}\n--- {a: 2}\n":             `[{"a":1},{"a":2}]`,
		"a: 1 # one\r\n---\r\na: 2\r\n...\r\n": `[{"a":1},{"a":2}]`,
		"\ufeffa: 1":                           `[{"a":1}]`,
		"{a: yes, b: on, c: true, d: 2020-01-02}":         `[{"a":"yes","b":"on","c":true,"d":"2020-01-02"}]`,
		"{name: 010, sub: {name: 010}, size: 010}":        `[{"name":"010","size":8,"sub":{"name":8}}]`,
		"{name: true}\n--- {name: null}\n--- {name: '1'}": `[{"name":"true"},{"name":null},{"name":"1"}]`,
		"a: &a {x: 1}\nb: {<<: *a, y: 2}\n1: *a":          `[{"1":{"x":1},"a":{"x":1},"b":{"x":1,"y":2}}]`,
		"- 12345678901234567890\n- 1.50\n":                `[[12345678901234567890,1.5]]`,
	} {
		all, err := document.All([]byte(stream), "name")
		got, jsonErr := json.Marshal(all)
		if err != nil || jsonErr != nil || string(got) != want {
			t.Errorf("%q: %s, %v, %v", stream, got, err, jsonErr)
		}
	}
	for stream, want := range map[string]string{
		"a: 1\n---\na: [":       "document 2: yaml: ",
		"a: .inf":               "document 1: json: unsupported value",
		"{{a: b}: c}":           "a key must be text",
		"a: &a [*a]":            "contains itself",
		"<<: [1]":               "<< must be a mapping",
		"a: {b: 1, 'b': 2}":     `document 1: line 1: a second "b" in one mapping`,
		"a: 1\n--- \nb: 1\nb\n": "document 2: yaml: ",
	} {
		if all, err := document.All([]byte(stream)); all != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", stream, all, err)
		}
	}
}

func TestLastOfEqualKeysCountsInFirst(t *testing.T) {
	got, err := document.First([]byte("a: 1\nb: 2\na: 3\n"))
	if want := map[string]any{"a": json.Number("3"), "b": json.Number("2")}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestLargeDocumentIsRead(t *testing.T) {
	all, err := document.All([]byte("[" + strings.Repeat("1,", 200_000) + "]"))
	if err != nil || len(all) != 1 || len(all[0].([]any)) != 200_000 {
		t.Errorf("%d documents, %v", len(all), err)
	}
}

func FuzzAll(f *testing.F) {
	f.Add([]byte("a: &a {x: 1}\n---\nb: {<<: *a}\nname: 010\n"))
	f.Add([]byte("--- [a, {b: .nan}]\n...\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		all, err := document.All(stream, "name")
		if err != nil {
			return
		}
		if _, err := json.Marshal(all); err != nil {
			t.Error(err)
		}
	})
}
