package jq_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/operator/jq"
)

func TestApply(t *testing.T) {
	for _, c := range []struct{ name, filter, in, want string }{
		{"one result is itself", ".a", `{"a":{"b":1}}`, `{"b":1}`},
		{"no result is null", "empty", `{}`, "null"},
		{"several results are a list", ".a[]", `{"a":[1,2]}`, "[1,2]"},
		{"a missing key is null", ".a", `{}`, "null"},
		{"large numbers keep their digits", ".n", `{"n":9007199254740993}`, "9007199254740993"},
		{"the environment is empty", "env", `{}`, "{}"},
		{"halt ends quietly", ".a, halt", `{"a":1}`, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := jq.Compile(c.filter)
			if err != nil {
				t.Fatal(err)
			}
			var value any
			dec := json.NewDecoder(bytes.NewBufferString(c.in))
			dec.UseNumber()
			if err := dec.Decode(&value); err != nil {
				t.Fatal(err)
			}
			result, err := f.Apply(t.Context(), value)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(result); string(got) != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestMistakesNameFilter(t *testing.T) {
	if _, err := jq.Compile(".["); err == nil || !strings.Contains(err.Error(), `".["`) {
		t.Errorf("a filter that is not jq: %v", err)
	}
	if _, err := jq.Compile("nosuch(.)"); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("an unknown function: %v", err)
	}
	f, err := jq.Compile(".a | keys")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Apply(t.Context(), map[string]any{"a": "text"}); err == nil || !strings.Contains(err.Error(), ".a | keys") {
		t.Errorf("keys of a string: %v", err)
	}
}

func TestMistakesQuoteNoValue(t *testing.T) {
	for filter, want := range map[string]string{
		".data.x.y": "expected an object but got: string", ".data.x[]": "cannot iterate over: string", ".data.x | error": "it raised an error",
		".data.x | fromjson": "fromjson cannot be", ".data.x | halt_error": "it raised an error", ".data | split(.x)": "split", ".data + .data.x": "cannot add: object",
		".data.x / 0": "cannot divide: string",
	} {
		f, err := jq.Compile(filter)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Apply(t.Context(), map[string]any{"data": map[string]any{"x": "hunter2"}})
		if err == nil || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", filter, err)
		}
	}
}

func TestEndlessFilterIsStopped(t *testing.T) {
	f, err := jq.Compile("def f: f; f")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := f.Apply(ctx, nil); err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("a filter that recurses for ever: %v", err)
	}
	if f, err = jq.Compile("repeat(1)"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Apply(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "more than 100000 results") {
		t.Errorf("results without end: %v", err)
	}
}
