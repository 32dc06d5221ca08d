package strictyaml_test

import (
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/strictyaml"
)

// TestWrittenTextsAreReadBack writes every short text of characters that matter for blocks, deep in data.
func TestWrittenTextsAreReadBack(t *testing.T) {
	t.Parallel()
	var try func(text string, more int)
	try = func(text string, more int) {
		value := map[string]any{"a": []any{[]any{map[string]any{"k": text}}, text}, "b": text}
		n, err := strictyaml.Node(value)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		data, err := strictyaml.Marshal(n)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var got map[string]any
		if err := yaml.Unmarshal(data, &got); err != nil || !reflect.DeepEqual(got, value) {
			t.Errorf("%q: got %#v, %v from\n%s", text, got, err, data)
		}
		if more == 0 {
			return
		}
		for _, c := range " \t\na#-\r:" {
			try(text+string(c), more-1)
		}
	}
	try("", 4)
}

func TestIndentedTextStaysBlockScalar(t *testing.T) {
	t.Parallel()
	n, err := strictyaml.Node([]any{"  if true; then\n    ls\n  fi\n"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := strictyaml.Marshal(n)
	if want := "- |2\n    if true; then\n      ls\n    fi\n"; err != nil || string(data) != want {
		t.Errorf("got %q, %v, want %q", data, err, want)
	}
}
