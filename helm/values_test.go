package helm_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sealift/sealift/helm"
)

func TestEqualValuesAreRecognized(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"a: 1\nb: {c: x}\n", "# comment\nb:\n  c: \"x\"\na: 1.0\n", true},
		{"", "{}", true},
		{"a: 1\n---\nb: 2\n", "b: 2\na: 1\n", true},
		{"a: 1\n", "a: \"1\"\n", false},
		{"a: [1, 2]\n", "a: [2, 1]\n", false},
		{"a: null\n", "", false},
		{"a: 1", "a: 1\n", true},
	} {
		a, errA := helm.ReadValues([]byte(test.a))
		b, errB := helm.ReadValues([]byte(test.b))
		if err := errors.Join(errA, errB); err != nil || helm.SameValues(a, b) != test.same {
			t.Errorf("%q and %q: same is not %v, %v", test.a, test.b, test.same, err)
		}
	}
}

func TestMergeValues(t *testing.T) {
	under, err := helm.ReadValues([]byte("a: {b: 1, c: [1]}\nd: 4\n"))
	if err != nil {
		t.Fatal(err)
	}
	over, err := helm.ReadValues([]byte("a: {c: [2]}\nd: {e: 5}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := helm.ReadValues([]byte("a: {b: 1, c: [2]}\nd: {e: 5}\n"))
	if got := helm.MergeValues(under, over); err != nil || !helm.SameValues(got, want) {
		t.Errorf("merged to %v", got)
	}
	if under["d"] != 4.0 {
		t.Errorf("merging changed %v", under)
	}
}

func TestShortValuesThatStandForLongOnesAreRefused(t *testing.T) {
	_, err := helm.ReadValues([]byte("a: 1\n---\nb: &x " + strings.Repeat("x", 1<<20) + "\nc: [" + strings.Repeat("*x, ", 5) + "]\n"))
	var wrong *helm.ValuesError
	if !errors.As(err, &wrong) || wrong.Line != 2 || !strings.Contains(err.Error(), "4 MiB") {
		t.Errorf("got %v", err)
	}
}

func FuzzReadValues(f *testing.F) {
	for _, seed := range []string{"a: 1\n---\nb: [", "a: &a [*a]", "---\n---", "- 1", "? [a]\n: b", "{}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		values, err := helm.ReadValues(data)
		var wrong *helm.ValuesError
		if err == nil && !helm.SameValues(values, helm.MergeValues(values, values)) || err != nil && !errors.As(err, &wrong) {
			t.Errorf("%v, %v", values, err)
		}
	})
}
