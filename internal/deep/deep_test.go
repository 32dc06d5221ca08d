package deep

import (
	"reflect"
	"testing"
	"time"
)

type one struct {
	Text   string
	Time   time.Time
	Bytes  []byte
	Ref    *one
	List   []one
	Pair   [2]*int
	Values map[string]any
	Any    any
	none   *int
}

func example() *one {
	n := 7
	return &one{
		Text: "a", Time: time.Now(), Bytes: []byte("abc"), Ref: &one{Text: "b", Bytes: []byte{}}, List: []one{{Text: "c", Values: map[string]any{}}},
		Pair: [2]*int{&n, nil}, Values: map[string]any{"list": []any{"x", map[string]any{"deep": int64(1)}}, "null": nil}, Any: []string{"y"}, none: &n,
	}
}

func TestCopyIsEqualAndIndependent(t *testing.T) {
	in := example()
	before := *example()
	before.Time, before.none = in.Time, in.none
	out := Copy(in)
	if !reflect.DeepEqual(in, out) {
		t.Fatalf("%+v is a copy of %+v", out, in)
	}
	out.Bytes[0], out.Ref.Text, *out.Pair[0] = 'X', "X", 8
	out.List[0].Values["new"] = 1
	out.Values["list"].([]any)[1].(map[string]any)["deep"] = int64(2)
	out.Any.([]string)[0] = "X"
	if !reflect.DeepEqual(*in, before) {
		t.Errorf("a change of the copy changed the original: %+v", in)
	}
}

func BenchmarkCopy(b *testing.B) {
	in := example()
	for b.Loop() {
		Copy(in)
	}
}
