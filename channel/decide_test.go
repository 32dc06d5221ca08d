package channel

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readCases(t testing.TB, name string, into any) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestRecordIsReplacedByRule(t *testing.T) {
	for _, name := range []string{"replaces_seed_rule.json", "replaces_head_rule.json"} {
		var table struct {
			Cases []struct {
				Existing, New Record
				Replaces      bool
				Why           string
			}
		}
		readCases(t, name, &table)
		for i, tt := range table.Cases {
			t.Run(fmt.Sprintf("%s %d %s", name, i, tt.Why), func(t *testing.T) {
				if got, why := tt.Existing.ReplacedBy(tt.New); got != tt.Replaces || why == "" {
					t.Errorf("%+v by %+v: %v (%s)", tt.Existing, tt.New, got, why)
				}
			})
		}
	}
}

func TestMatches(t *testing.T) {
	var table struct {
		Cases []struct {
			KubernetesVersion, ServerGitVersion, Parsed, RangeError string
			Matches                                                 bool
		}
	}
	readCases(t, "kubernetes_version_range.json", &table)
	for i, tt := range table.Cases {
		t.Run(fmt.Sprintf("%d %s of %s", i, tt.ServerGitVersion, tt.KubernetesVersion), func(t *testing.T) {
			server, err := serverVersion(tt.ServerGitVersion)
			if err != nil || server.String() != tt.Parsed {
				t.Errorf("parsed as %s (%v), want %s", server, err, tt.Parsed)
			}
			in, err := matches(tt.KubernetesVersion, server)
			if in != tt.Matches || tt.RangeError != "" && (err == nil || err.Error() != tt.RangeError) || tt.RangeError == "" && err != nil {
				t.Errorf("matches: %v, error %v", in, err)
			}
		})
	}
}

func FuzzMatches(f *testing.F) {
	for _, text := range []string{">=1.4.0 <1.6.0", "1.30.x", "!1.6.0 || >2.0.0", "~1.6.0", "x", "1x", ">x.1", " || ", "|| 1.0.0"} {
		f.Add(text)
	}
	server, err := serverVersion("v1.36.3")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		in, err := matches(text, server)
		if err != nil && in {
			t.Error("matches, and is an error")
		}
	})
}

// lines describes a plan, one line for each entry.
func lines(p Plan) []string {
	var out []string
	for _, d := range p.Addons {
		out = append(out, fmt.Sprintf("%s %s %s: %s", d.Entry.Name, d.Entry.Manifest, d.Action, d.Reason))
	}
	for _, s := range p.Skipped {
		out = append(out, fmt.Sprintf("%s %s skip: %s", s.Entry.Name, s.Entry.Manifest, s.Reason))
	}
	return out
}

func TestNewPlan(t *testing.T) {
	entry := func(name, version, manifest string, more ...string) Entry {
		e := Entry{Name: name, Namespace: DefaultNamespace, Manifest: manifest}
		if version != "" {
			e.Version = &version
		}
		for _, m := range more {
			switch key, value, _ := strings.Cut(m, ":"); key {
			case "k8s":
				e.KubernetesVersion = value
			case "id":
				e.ID = value
			case "ns":
				e.Namespace = value
			}
		}
		return e
	}
	tests := []struct {
		name    string
		entries []Entry
		records []Installed
		want    []string
	}{
		{"the newest of several versions", []Entry{entry("a", "1.4.0", "1"), entry("a", "1.5.0", "2"), entry("a", "1.4.1", "3")}, nil,
			[]string{"a 2 install: it is not installed", "a 1 skip: an entry after it is preferred: version 1.5.0 is newer than 1.4.0",
				"a 3 skip: an entry before it is preferred: version 1.5.0 stays, since 1.4.1 is older"}},
		{"the one for this Kubernetes", []Entry{entry("a", "1.6.0", "old", "k8s:<1.6.0", "id:pre"), entry("a", "1.6.0", "new", "k8s:>=1.6.0", "id:k8s-16")}, nil,
			[]string{"a new install: it is not installed", `a old skip: Kubernetes 1.36.3 is not in "<1.6.0"`}},
		{"a range that is none skips its entry alone", []Entry{entry("a", "1.6.0", "1", "k8s:>=1.6"), entry("b", "1.0.0", "2")}, nil,
			[]string{"b 2 install: it is not installed", `a 1 skip: its kubernetesVersion ">=1.6" is not a range: Could not parse Range ">=1.6": Could not parse version "1.6" in ">=1.6": No Major.Minor.Patch elements found`}},
		{"of equals with other ids the last", []Entry{entry("a", "1.0", "1", "id:x"), entry("a", "1.0.0", "2", "id:y")}, nil,
			[]string{"a 2 install: it is not installed", `a 1 skip: an entry after it is preferred: same version 1.0.0, and id "y" is not "x"`}},
		{"without versions the last that differs", []Entry{entry("a", "", "1", "id:x"), entry("a", "", "2", "id:y"), entry("a", "", "3", "id:y")}, nil,
			[]string{"a 2 install: it is not installed", `a 1 skip: an entry after it is preferred: id "y" is not "x"`, "a 3 skip: an entry before it is preferred: it is up to date"}},
		{"never back", []Entry{entry("a", "1.0.0", "1", "id:x")}, []Installed{{Namespace: "kube-system", Name: "a", Record: Record{Version: new("1.1.0")}}},
			[]string{"a 1 keep: version 1.1.0 stays, since 1.0.0 is older"}},
		{"records of other namespaces do not count", []Entry{entry("a", "1.0.0", "1"), entry("b", "1.0.0", "2", "ns:infra")},
			[]Installed{{Namespace: "default", Name: "a", Record: Record{Version: new("1.0.0")}}, {Namespace: "infra", Name: "b", Record: Record{Version: new("1.0.0")}}},
			[]string{"a 1 install: it is not installed", "b 2 keep: version 1.0.0 is up to date"}},
		{"what the installer has is adopted", []Entry{entry("a", "1.0.0", "1")}, []Installed{{Name: "a", Owner: "installer", Record: Record{Version: new("1.0.0")}}},
			[]string{"a 1 adopt: it is adopted from the installer, which applied version 1.0.0"}},
		{"and raised", []Entry{entry("a", "1.1.0", "1")}, []Installed{{Name: "a", Owner: "installer", Record: Record{Version: new("1.0.0")}}},
			[]string{"a 1 adopt: it is adopted from the installer, which applied version 1.0.0; version 1.1.0 is newer than 1.0.0"}},
		{"but never lowered", []Entry{entry("a", "0.9.0", "1")}, []Installed{{Name: "a", Owner: "installer", Record: Record{Version: new("1.0.0")}}},
			[]string{"a 1 keep: it stays with the installer: version 1.0.0 stays, since 0.9.0 is older"}},
		{"what was released stays", []Entry{entry("a", "1.1.0", "1")}, []Installed{{Name: "a", Owner: "installer", Released: "kube-system/a", Record: Record{Version: new("1.0.0")}}},
			[]string{"a 1 keep: it was released to the installer; --adopt a adopts it again"}},
		{"unless another channel released it", []Entry{entry("a", "1.0.0", "1", "ns:infra")}, []Installed{{Name: "a", Owner: "installer", Released: "kube-system/a", Record: Record{Version: new("1.0.0")}}},
			[]string{"a 1 adopt: it is adopted from the installer, which applied version 1.0.0"}},
		{"what an earlier channel has recorded does not hide its owner", []Entry{entry("a", "1.0.0", "1")},
			[]Installed{{Name: "a", Owner: "installer"}, {Namespace: "kube-system", Name: "a", Record: Record{Version: new("1.0.0")}}},
			[]string{"a 1 adopt: it is adopted from the installer, which applied version (none yet)"}},
		{"what another owns is a conflict", []Entry{entry("a", "1.0.0", "1"), entry("b", "1.0.0", "2")}, []Installed{{Name: "a", Owner: "fleet hub/west"}},
			[]string{"a 1 conflict: fleet hub/west owns it: release it there first", "b 2 install: it is not installed"}},
		{"a record without a version", []Entry{entry("a", "1.0.0", "1")}, []Installed{{Namespace: "kube-system", Name: "a", Record: Record{ID: "x"}}},
			[]string{"a 1 update: no version is recorded, and the new one has 1.0.0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan, err := NewPlan(tt.entries, "v1.36.3-rc.1", tt.records)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, lines(plan)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("a Kubernetes version that is none", func(t *testing.T) {
		if _, err := NewPlan(nil, "new", nil); err == nil || !strings.Contains(err.Error(), `Kubernetes version "new" cannot be read`) {
			t.Errorf("%v", err)
		}
	})
}

func TestRecordsAreCompact(t *testing.T) {
	text, err := Entry{Version: new("1.0.0"), Channel: "c", ID: "i", ManifestHash: "h"}.record().encode()
	if want := `{"version":"1.0.0","channel":"c","id":"i","manifestHash":"h","systemGeneration":1}`; err != nil || text != want {
		t.Errorf("%s (%v), want %s", text, err, want)
	}
	if text, _ := (Record{}).encode(); text != "{}" {
		t.Error(text)
	}
}
