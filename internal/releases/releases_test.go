package releases

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The table can be read, has each version once, and has what programs and tests ask for without a check.
func TestTableIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range All() {
		if seen[r.Folder()] {
			t.Errorf("%s is there twice", r.Folder())
		}
		seen[r.Folder()] = true
		if r.Use != Tool && len(Of(r.Name, Tested)) > 0 && Current(r.Name).Use != Default {
			t.Errorf("%s has no current version", r.Name)
		}
	}
	if before := Current("kubernetes").Before(); before.Use < Tested {
		t.Errorf("Kubernetes %s is not tested, and upgrades to the current release begin with it", before.Version)
	}
}

func TestLinesAreParsed(t *testing.T) {
	got, err := parse("# NAME VERSION\n\na 1.0 lab b=2,c=v3-0 # why\na 1.10 default\nt 7 tool\n")
	want := []Release{{"a", "1.0", Lab, map[string]string{"b": "2", "c": "v3-0"}}, {Name: "a", Version: "1.10", Use: Default}, {Name: "t", Version: "7", Use: Tool}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, want := got[0].Parameters(), "b=2,c=v3-0"; got != want {
		t.Errorf("the parameters are %q, want %q", got, want)
	}
	for text, says := range map[string]string{
		"a 1.0\n":               "line 1: 2 columns; write NAME VERSION USE [WITH]",
		"\na 1.0 lab b=1 c=2\n": "line 2: 5 columns",
		"a 1.0 new\n":           `"new" is not a use; write one of tool, lab, shipped, tested, default`,
		"a 1.0 lab b=1,c\n":     `"c" is not NAME=VALUE`,
		"a 1.0 lab b=\n":        `"b=" is not NAME=VALUE`,
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: the error is %v, want %q", text, err, says)
		}
	}
}
