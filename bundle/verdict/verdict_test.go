package verdict_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/bundle/verdict"
)

func TestLevelsCountWhatTheyDoNotAllow(t *testing.T) {
	counts := verdict.Counts{Critical: 10000, High: 1000, Medium: 100, Low: 10, Unknown: 1, Excepted: 100000}
	for level, want := range map[verdict.Level]int{"any": 11111, "low": 11111, "medium": 11101, "high": 11001, "critical": 10001} {
		if got := counts.Failing(level); got != want {
			t.Errorf("%s: %d, want %d", level, got, want)
		}
	}
	if n := (verdict.Counts{Excepted: 1}).Failing("any"); n != 0 {
		t.Errorf("%d excepted ones fail", n)
	}
}

// TestLongListsAreCut keeps the document small enough to be read on a node, and the counts right.
func TestLongListsAreCut(t *testing.T) {
	key, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.Public()
	if err != nil {
		t.Fatal(err)
	}
	v := verdict.Verdict{Index: "sha256:0", Counts: verdict.Counts{High: 5000}, Failed: make([]verdict.Finding, 5000), Unknown: make([]string, 5000)}
	for n := range v.Failed {
		v.Failed[n] = verdict.Finding{ID: strings.Repeat("x", 100), Name: strings.Repeat("y", 200)}
		v.Unknown[n] = strings.Repeat("z", 300)
	}
	signed, err := v.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	got, err := signed.Verify("0", public)
	if err != nil {
		t.Fatal(err)
	}
	if got.Counts.High != 5000 || len(got.Failed) != 500 || len(got.Unknown) != 500 || got.Format != verdict.Format {
		t.Errorf("counts %+v, %d failed, %d unknown, format %s", got.Counts, len(got.Failed), len(got.Unknown), got.Format)
	}
	v.Unknown[0] = strings.Repeat("z", verdict.MaxSize)
	if _, err := v.Sign(key); err == nil {
		t.Error("a verdict that no node reads was signed")
	}
}
