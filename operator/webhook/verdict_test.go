package webhook

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sealift/sealift/operator/binding"
)

// TestFirstVerdictCounts: a hook of Deckhouse writes that it allows, and then that it refuses (its cat has no exit after it). Upstream reads
// the first document and no more, and takes an answer without the key allowed for a refusal.
func TestFirstVerdictCounts(t *testing.T) {
	var written string
	a := &admission{binding: &binding.Admission{Common: binding.Common{Name: "a.b.c"}}, kind: binding.OnMutating, hook: &Hook{Name: "hook.sh", Run: func(context.Context, binding.Context) ([]byte, error) {
		return []byte(written), nil
	}}}
	s := New(t.Context(), Options{})
	for _, row := range []struct{ written, want string }{
		{"{\"allowed\":true}\n{\"allowed\":false, \"message\":\"no\"}\n", "true"},
		{`{"allowed":false,"message":"no"}{"allowed":true}`, "403 no"},
		{"{\"allowed\":true,\"warnings\":[\"w\"]}\nallowed: false", "true w"},
		{`{"allowed":true,"patch":"W10K"} {"allowed":true,"patch":"WzFd"}`, "true []\n"},
		{`{"message":"no"}`, "403 no"},
		{`{"message":"no","code":418}`, "418 no"},
		{`{"allowed":null,"warnings":["w"]}`, "403 what it wrote to $ADMISSION_RESPONSE_PATH does not allow this, and has no message w"},
		{`{}`, "403 what it wrote to $ADMISSION_RESPONSE_PATH does not allow this, and has no message"},
		{`{"patch":"W10K"}`, "403 what it wrote to $ADMISSION_RESPONSE_PATH does not allow this, and has no message []\n"},
		{`{"allowed":"true"}`, "500 hook hook.sh: its response in $ADMISSION_RESPONSE_PATH is invalid"},
		{`allowed: true`, "500 hook hook.sh: its response in $ADMISSION_RESPONSE_PATH is invalid"},
		{`[]`, "500 hook hook.sh: its response in $ADMISSION_RESPONSE_PATH is invalid"},
	} {
		written = row.written
		r := s.judge(t.Context(), a, &review{Request: []byte("{}")})
		got := "true"
		if !r.Allowed {
			got = fmt.Sprint(r.Result.Code, " ", r.Result.Message)
		}
		got = strings.Join(append([]string{got}, r.Warnings...), " ")
		if r.Patch != nil {
			got += " " + string(r.Patch)
		}
		if got != row.want && (row.want[:3] != "500" || !strings.HasPrefix(got, row.want)) {
			t.Errorf("%s: %q, want %q", written, got, row.want)
		}
	}
}

func FuzzVerdict(f *testing.F) {
	for _, text := range []string{`{"allowed":true}`, `{"allowed":false,"message":"no","code":418}`, `{"allowed":true,"patch":"W10K"}`, "[]", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if v, err := parseVerdict(text); err == nil && v.Allowed && !bytes.Contains(text, []byte("true")) {
			t.Error("an answer that does not allow was taken for one that does")
		}
	})
}
